"""A group measured in this process, its variants in turn: for a quick look and for debuggers. No verdict follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import compiled
from ..case import Case, explaining, prepare
from ..observe import accuracy
from ..observe.saved import ledger, saved_bytes, saved_new_bytes
from ..records import FAILED, UNAVAILABLE, Record
from ..sources import told
from . import phases, sampling
from .protocols import WALL
from .rows import Arm, Rows
from .statistics import estimate

if TYPE_CHECKING:
    from ..spec import Spec

Load = Callable[[str], Callable[..., Any]]
"""`load(variant)`: the callable. Raises NotImplementedError where it cannot run here."""


class NotCompiledError(RuntimeError):
    """A variant that must be compiled ran without a graph: its time would be eager's."""


@dataclass(frozen=True)
class Ready:
    """A warmed case, with the seconds of each phase's first call, what was compiled, what is saved, and its error."""

    case: Case
    first_call_s: Mapping[str, float]
    compilation: Mapping[str, int]
    saved: Mapping[str, Any]
    error: Mapping[str, float]


def measure(
    spec: Spec,
    rows: Rows,
    arms: Sequence[Arm],
    load: Load,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Record]:
    """Every record of the group. budget_s: seconds of sampling an arm and phase.

    An arm that cannot run is n/a, one that raises is failed; the others are measured all the same.
    """
    compiled.forget()
    ready: dict[str, Ready] = {}
    for arm in arms:
        try:
            ready[arm.variant] = _prepare(spec, rows, arm, load, clock)
        except NotImplementedError as error:
            yield from rows.missing(arm.variant, UNAVAILABLE, str(error))
        except Exception as error:  # whatever a Function raises is its own row, and the others go on
            yield from rows.missing(arm.variant, FAILED, told(error))
    for variant, found in ready.items():
        yield from rows.memory(variant, found.saved)
        yield from rows.error(variant, found.error)
        yield from rows.first_calls(variant, found.first_call_s)
    for phase in rows.phases:
        yield from _time(rows, ready, phase, budget_s, clock)


def _prepare(spec: Spec, rows: Rows, arm: Arm, load: Load, clock: Callable[[], float]) -> Ready:
    """The case, warmed by the very calls that will be timed."""
    before = compiled.counts()
    case = prepare(spec, rows.group.key(arm.variant), load(arm.variant))
    first = {}
    for phase in rows.phases:
        begin = clock()
        with explaining(case):
            phases.SAMPLE[phase](case, 1, clock)
        first[phase] = clock() - begin
    counts = compiled.counts() - before
    if arm.compiled and counts.graphs < 1:
        raise NotCompiledError("no graph was compiled, so the time would be eager's")
    entries = ledger(case)
    saved = {
        "saved_bytes": saved_bytes(entries),
        "saved_new_bytes": saved_new_bytes(entries),
        "ledger": [asdict(entry) for entry in entries],
    }
    return Ready(case, first, asdict(counts) if arm.compiled else {}, saved, accuracy.error(spec, case))


def _time(
    rows: Rows, ready: Mapping[str, Ready], phase: str, budget_s: float, clock: Callable[[], float]
) -> Iterator[Record]:
    failures: dict[str, str] = {}
    arms = {}
    for variant, found in ready.items():
        sample = partial(_guarded, found.case, phase, clock, failures)
        arms[variant] = sample, sampling.calls_per_sample(sampling.warm_up(sample))
    for variant, samples in sampling.interleave(arms, budget_s).items():
        if variant in failures:
            yield rows.time(variant, phase, WALL, status=FAILED, reason=failures[variant])
            continue
        found_time = estimate(samples.times_s)
        compilation = ready[variant].compilation
        yield rows.time(
            variant, phase, WALL,
            value=found_time.value, low=found_time.low, high=found_time.high, samples=samples.times_s,
            number=samples.number, processes=1,
            detail={"compiled": dict(compilation)} if compilation else {},
        )  # fmt: skip


def _guarded(case: Case, phase: str, clock: Callable[[], float], failures: dict[str, str], number: int) -> float:
    """A sample that notes an exception and goes on, so that one arm does not end the others."""
    if case.key.variant in failures:
        return 0.0
    try:
        return phases.SAMPLE[phase](case, number, clock)
    except Exception as error:  # as in `measure`
        failures[case.key.variant] = told(error)
        return 0.0
