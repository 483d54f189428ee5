"""Steps in a history: the commits at which a case came to take more or less, told from the recorded intervals.

A time is followed as its speedup over eager of the same run: what a machine does on one day and not on another hits
both. A step from one measured commit to the next must leave both intervals and the noise floor behind, be larger than
what the same history does from commit to commit anyhow, and have its neighbours on their own sides: a commit whose
time differs from both is an odd measurement. Bytes are exact, so each change of them is a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import Any

import pandas as pd

from .measure.verdict import SAME
from .records import OK, is_ceiling
from .speedups import add_speedups

# A change of one of these starts another history.
HISTORY = [
    "function", "variant", "workload", "dtype", "device", "phase", "metric", "machine", "source", "version", "protocol",
    "threads", "device_model", "driver", "torch", "allocator", "cache",
]  # fmt: skip
BYTES = ("saved_bytes", "saved_new_bytes", "held_bytes", "hidden_bytes", "peak_bytes", "leaked_bytes")
# Of normal differences, how many of their median size is one standard deviation; and how many of these are too many.
DEVIATION, TOO_MANY = 1.4826, 3.0
# Fewer other differences say nothing of what is usual.
FEWEST_OTHERS = 4
DIRTY = "+dirty"


@dataclass(frozen=True)
class Step:
    """A change of one metric of a case in a phase at a commit.

    before: the commit measured before it. factor: value after / before, of times relative to eager's where eager was
    measured; low, high: the bounds of its interval. floor: what the noise may do in each of the two runs, as a
    fraction. usual: what the history does from commit to commit, as a fraction; None where it is too short to tell.
    """

    function: str
    variant: str
    workload: str
    dtype: str
    device: str
    phase: str
    metric: str
    machine: str
    commit: str
    before: str
    factor: float
    low: float
    high: float
    floor: float
    usual: float | None

    @property
    def worse(self) -> bool:
        """Whether it takes more than before."""
        return self.factor > 1


@dataclass(frozen=True)
class _Point:
    """Of one commit: the logarithm of the cost, half of its interval, and the noise floor."""

    commit: str
    cost: float
    half: float
    floor: float


def steps(results: pd.DataFrame, order: Sequence[str]) -> list[Step]:
    """Every step of every history in the frame, the largest losses first.

    order: full hashes of the commits, the oldest first; results of others and of changed working trees are left out.
    """
    place = {commit: number for number, commit in enumerate(order)}
    rows = results[results["commit"].isin(place) & (results["status"] == OK) & ~is_ceiling(results["function"])]
    # Without samples a speedup has no interval, and so no step.
    timed = rows[(rows["variant"] == "eager") | rows["samples"].map(bool)]
    found = [
        step
        for frame, point in ((add_speedups(timed), _time), (rows[rows["metric"].isin(BYTES)], _bytes))
        for key, history in _histories(frame).items()
        for step in _steps(dict(zip(HISTORY, key, strict=True)), _points(history, place, point))
    ]
    return sorted(found, key=lambda step: step.factor, reverse=True)


def _histories(frame: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
    """{history: {commit: its row}}; of several results of one commit the last."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    identity = attrgetter(*HISTORY)
    for row in frame.sort_values("date", kind="stable", na_position="first").itertuples():
        found.setdefault(identity(row), {})[str(row.commit)] = row
    return found


def _points(history: dict[str, Any], place: dict[str, int], point: Any) -> list[_Point]:
    """In the order of history."""
    rows = (history[commit] for commit in sorted(history, key=place.__getitem__))
    return [found for row in rows if (found := point(row)) is not None]


def _time(row: Any) -> _Point | None:
    """Relative to eager of the same run, but eager's own as it is."""
    relative = row.variant != "eager" and not math.isnan(row.speedup)
    low, high = (row.speedup_low, row.speedup_high) if relative else (row.low, row.high)
    value = 1 / row.speedup if relative else row.value
    # A clock that went backwards gives what has no logarithm.
    if any(bound is None or not bound > 0 for bound in (value, low, high)):
        return None
    floor = 0.0 if math.isnan(row.floor) else row.floor
    return _Point(row.commit, math.log(value), math.log(high / low) / 2, floor)


def _bytes(row: Any) -> _Point:
    # From nothing to something is a step too.
    return _Point(row.commit, math.log(max(row.value, 0) + 1), 0.0, 0.0)


def _steps(key: dict[str, Any], points: Sequence[_Point]) -> Iterator[Step]:
    changes = [after.cost - before.cost for before, after in pairwise(points)]
    exact = key["metric"] != "time_s"
    for number, change in enumerate(changes):
        before, after = points[number], points[number + 1]
        usual = _usual(changes, number)
        beyond = _beyond(before, after, 0.0 if exact else max(math.log1p(SAME), TOO_MANY * (usual or 0.0)))
        around = points[max(0, number - 1) : number], points[number + 2 : number + 3]
        if not beyond or not (exact or _lasts(before, after, *around)):
            continue
        half = math.hypot(before.half, after.half)
        identity = {name: key[name] for name in HISTORY[: HISTORY.index("machine") + 1]}
        yield Step(
            **identity, commit=after.commit, before=before.commit, factor=math.exp(change),
            low=math.exp(change - half), high=math.exp(change + half), floor=math.expm1(max(before.floor, after.floor)),
            usual=None if usual is None else math.expm1(usual),
        )  # fmt: skip


def _usual(changes: Sequence[float], number: int) -> float | None:
    """One standard deviation of the other changes, by their median size."""
    others = [abs(change) for place, change in enumerate(changes) if place != number]
    return DEVIATION * median(others) if len(others) >= FEWEST_OTHERS else None


def _beyond(before: _Point, after: _Point, least: float) -> bool:
    """Whether the two differ by more than both intervals, the floor, and `least`."""
    away = abs(after.cost - before.cost)
    return away > math.hypot(before.half, after.half) + max(before.floor, after.floor) and away > least


def _lasts(before: _Point, after: _Point, earlier: Sequence[_Point], later: Sequence[_Point]) -> bool:
    """Whether the neighbours, where there are any, lie on their own side of the step: one odd commit is none."""
    middle = (before.cost + after.cost) / 2
    rises = after.cost > before.cost
    return all((point.cost < middle) == rises for point in earlier) and all(
        (point.cost > middle) == rises for point in later
    )
