"""Instructions of two builds, counted inside Valgrind: a difference that no time can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..measure.instructions import METRIC, Asked, Counted, count
from ..measure.run import Progress
from ..records import OK
from .builds import Side
from .changes import LESS, MORE, SAME, Change
from .plan import Pair

# What ran before in a process moves a count by up to so much.
EXACT_TO = 0.02


def compare_instructions(
    base: Side, head: Side, pairs: Sequence[Pair], phases: Sequence[str], progress: Progress
) -> list[Change]:
    """Instructions a call of every case of the pairs at both sides; less and more are beyond EXACT_TO."""
    keys = [pair.group.key(arm.variant) for pair in pairs for arm in pair.arms]
    if not keys:
        return []
    found = [count(side.build, keys, phases, progress=progress) for side in (base, head)]
    return list(_changes(found[0], found[1]))


def _changes(base: Mapping[Asked, Counted], head: Mapping[Asked, Counted]) -> Iterator[Change]:
    for (key, phase), before in base.items():
        after = head[key, phase]
        change = partial(Change, **vars(key), phase=phase, metric=METRIC)
        failed = next((one for one in (before, after) if one.status != OK), None)
        if failed or not before.value or after.value is None:
            status, reason = (failed.status, failed.reason) if failed else ("n/a", "no instructions were counted")
            yield change(verdict=status, reason=reason)
            continue
        relative = after.value / before.value - 1
        verdict = SAME if abs(relative) <= EXACT_TO else MORE if relative > 0 else LESS
        yield change(verdict=verdict, base=before.value, head=after.value, ratio=before.value / after.value)
