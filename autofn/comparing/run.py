"""Measures two builds as arms in lockstep, and measures again what looked different: only what holds twice is told.

A run over 20 cases makes some 100 comparisons; at one false alarm in a hundred comparisons every other run would have
one. So the first look only suspects, and each suspect is measured anew, with new interpreters, at the confidence that
the number of suspects asks for. A false alarm must then happen twice, to the same case and in the same direction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..measure.lockstep import ArmSpec, Effort, Lockstep, Outcome
from ..measure.processes import Processes
from ..measure.protocols import WALL
from ..measure.rows import MEMORY_METRICS, Group
from ..measure.run import Progress
from ..measure.statistics import over_processes
from ..measure.verdict import Verdict, judge
from ..records import FAILED, UNAVAILABLE
from .builds import Side
from .changes import BROKEN, CANNOT_TELL, FASTER, LESS, MORE, SAME, SLOWER, Change, from_dict
from .plan import Pair

BASE, AGAIN, HEAD = "base", "base again", "head"
CONFIDENCE = 0.95
# Of the budget: what the first look may take. The rest is for what it suspects.
FIRST_SHARE = 0.6
# What a group of suspects takes at least, for a verdict that a pass of generations cannot give.
SUSPECT_S = 5.0


@dataclass(frozen=True)
class Comparison:
    """Two sides and how they are compared: phases, and seconds of sampling in all."""

    base: Side
    head: Side
    phases: tuple[str, ...]
    budget_s: float


Measured = Callable[[Processes, Comparison, Pair, Effort], Outcome]


class Looks:
    """A file of JSON lines that holds each group's result the moment it is there: an interrupted comparison goes on."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def read(self, look: str, pair: Pair) -> list[Change] | None:
        """What was found of the pair in that look, or None."""
        for entry in self._entries():
            if entry.get("look") == look and entry.get("group") == str(pair.group):
                return [from_dict(change) for change in entry["changes"]]
        return None

    def write(self, look: str, pair: Pair, changes: Sequence[Change]) -> None:
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        entry = {"look": look, "group": str(pair.group), "changes": [change.to_dict() for change in changes]}
        with self.path.open("a", encoding="utf-8") as file:
            # On a line of its own, even after one that a kill has cut short.
            file.write(f"\n{json.dumps(entry)}\n")
            file.flush()

    def _entries(self) -> Iterator[dict[str, Any]]:
        if self.path is None or not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                entry = json.loads(line) if line.strip() else None
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry


def compare_pairs(
    comparison: Comparison,
    pairs: Sequence[Pair],
    looks: Looks,
    progress: Progress = lambda done, total, label: None,
    measured: Measured | None = None,
) -> list[Change]:
    """Every change of every pair, the same and what cannot be told among them. measured: where the times come from."""
    look = partial(_look, comparison=comparison, looks=looks, progress=progress, measured=measured or measure)
    first = look("first", pairs=pairs, budget_s=_first_budget(comparison, pairs), confidence=CONFIDENCE)
    suspects = {pair: found for pair in pairs if (found := _suspected(first[pair.group]))}
    if not suspects:
        return [change for pair in pairs for change in first[pair.group]]
    count = sum(map(len, suspects.values()))
    each = max(SUSPECT_S, (1 - FIRST_SHARE) * comparison.budget_s / len(suspects))
    narrowed = [_only(pair, found) for pair, found in suspects.items()]
    second = look("second", pairs=narrowed, budget_s=lambda pair: each, confidence=1 - (1 - CONFIDENCE) / count)
    return [
        _confirmed(change, second.get(pair.group, [])) if change.verdict in (FASTER, SLOWER) else change
        for pair in pairs
        for change in first[pair.group]
    ]


def _first_budget(comparison: Comparison, pairs: Sequence[Pair]) -> Callable[[Pair], float]:
    """The seconds of a pair: its part of the budget by its arms."""
    arms = sum(len(pair.arms) for pair in pairs) or 1
    return lambda pair: FIRST_SHARE * comparison.budget_s * len(pair.arms) / arms


def _suspected(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.verdict in (FASTER, SLOWER)]


def _only(pair: Pair, suspects: Sequence[Change]) -> Pair:
    variants = {change.variant for change in suspects}
    return Pair(pair.group, tuple(arm for arm in pair.arms if arm.variant in variants))


def _confirmed(change: Change, again: Sequence[Change]) -> Change:
    """The second look's answer where it agrees; else nobody can tell."""
    for other in again:
        if (other.variant, other.phase, other.metric) == (change.variant, change.phase, change.metric):
            if other.verdict in (change.verdict, SAME):
                return other
            seen = f"{abs(1 / change.ratio - 1):.1%} {change.verdict}" if change.ratio else change.verdict
            return _replaced(other, verdict=CANNOT_TELL, reason=f"seemed {seen} at first, which did not hold")
    return _replaced(change, verdict=CANNOT_TELL, reason="could not be measured a second time")


def _replaced(change: Change, **values: Any) -> Change:
    return from_dict({**change.to_dict(), **values})


def _look(
    name: str,
    *,
    comparison: Comparison,
    pairs: Sequence[Pair],
    looks: Looks,
    budget_s: Callable[[Pair], float],
    confidence: float,
    progress: Progress,
    measured: Measured,
) -> dict[Group, list[Change]]:
    """By group, the changes of every pair; each look has interpreters of its own."""
    found = {}
    with Processes() as processes:
        for number, pair in enumerate(pairs):
            progress(number, len(pairs), f"{name} look: {pair.group}")
            known = looks.read(name, pair)
            if known is None:
                outcome = measured(processes, comparison, pair, Effort(budget_s(pair)))
                known = [*_changes(comparison.phases, pair, outcome, confidence), *_missing(pair, comparison.phases)]
                looks.write(name, pair, known)
            found[pair.group] = known
    progress(len(pairs), len(pairs), "")
    return found


def one_look(processes: Processes, comparison: Comparison, pair: Pair, effort: Effort) -> list[Change]:
    """The changes of a pair in one look: what is called slower may be a false alarm, once in a hundred times."""
    outcome = measure(processes, comparison, pair, effort)
    return [*_changes(comparison.phases, pair, outcome, CONFIDENCE), *_missing(pair, comparison.phases)]


def measure(processes: Processes, comparison: Comparison, pair: Pair, effort: Effort) -> Outcome:
    """Two arms of the base and one of the head for each variant of the pair, in lockstep."""
    specs = [
        ArmSpec(
            f"{side} {arm.variant}", pair.group.key(arm.variant), build, compiled=arm.compiled, memory=side != AGAIN
        )
        for arm in pair.arms
        for side, build in (
            (BASE, comparison.base.build), (AGAIN, comparison.base.build), (HEAD, comparison.head.build),
        )
    ]  # fmt: skip
    return Lockstep(processes, specs, comparison.phases, replace(effort, first_calls=False)).run()


def _changes(phases: Sequence[str], pair: Pair, outcome: Outcome, confidence: float) -> Iterator[Change]:
    for arm in pair.arms:
        base, again, head = (f"{side} {arm.variant}" for side in (BASE, AGAIN, HEAD))
        why = {name: _why_not(name, arm.compiled, outcome) for name in (base, again, head)}
        if why[base] or why[again]:
            yield from _without(pair, arm.variant, phases, *(why[base] or why[again] or ("", "")))
        elif why[head]:
            yield from _without(pair, arm.variant, phases, BROKEN, (why[head] or ("", ""))[1])
        else:
            for phase in phases:
                servers = [outcome.times[name, phase, WALL] for name in (base, again, head)]
                yield _time(pair, arm.variant, phase, servers, confidence)
            yield from _memory(pair, arm.variant, outcome.memory.get(base), outcome.memory.get(head))


def _why_not(name: str, compiled: bool, outcome: Outcome) -> tuple[str, str] | None:
    if name in outcome.unavailable:
        return UNAVAILABLE, outcome.unavailable[name]
    if name in outcome.failed:
        return FAILED, outcome.failed[name]
    if compiled and outcome.prepared[name]["compilation"]["graphs"] < 1:
        return FAILED, "no graph was compiled, so the time would be eager's"
    return None


def _without(pair: Pair, variant: str, phases: Sequence[str], verdict: str, reason: str) -> Iterator[Change]:
    for phase in phases:
        yield _change(pair, variant, phase, "time_s", verdict, reason=reason)


def _missing(pair: Pair, phases: Sequence[str]) -> Iterator[Change]:
    for variant, reason in pair.missing:
        yield from _without(pair, variant, phases, UNAVAILABLE, reason)


def _time(pair: Pair, variant: str, phase: str, servers: Sequence[Any], confidence: float) -> Change:
    base, again, head = servers
    found: Verdict = judge(base, again, head, confidence)
    return _change(
        pair, variant, phase, "time_s", found.word,
        base=over_processes(base).value, head=over_processes(head).value,
        ratio=found.speedup.value, low=found.speedup.low, high=found.speedup.high,
        floor=None if found.floor != found.floor else found.floor, smallest_effect=found.smallest_effect,
    )  # fmt: skip


def _memory(
    pair: Pair, variant: str, base: Mapping[str, Any] | None, head: Mapping[str, Any] | None
) -> Iterator[Change]:
    """Bytes are exact: any difference is one."""
    if base is None or head is None:
        return
    for phase, metric in MEMORY_METRICS:
        before, after = (_bytes(found[metric], phase) for found in (base, head))
        verdict = SAME if before == after else LESS if after < before else MORE
        yield _change(pair, variant, phase, metric, verdict, base=before, head=after)


def _bytes(found: Any, phase: str) -> float:
    value: float = found[phase] if isinstance(found, Mapping) else found
    return value


def _change(pair: Pair, variant: str, phase: str, metric: str, verdict: str, **values: Any) -> Change:
    key = pair.group.key(variant)
    return Change(key.function, variant, key.workload, key.dtype, key.device, phase, metric, verdict, **values)
