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

import numpy as np
import pandas as pd

from .measure.verdict import SAME
from .records import OK, is_ceiling
from .speedups import add_speedups

# A change of one of these starts another history.
HISTORY = [
    "function", "variant", "workload", "dtype", "device", "phase", "metric", "machine", "source", "version", "protocol",
    "threads", "device_model", "driver", "torch", "allocator", "cache",
]  # fmt: skip
# What is told of it.
IDENTITY = HISTORY[: HISTORY.index("machine") + 1]
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
class _History:
    """Of one history, a value a commit: the logarithm of the cost, half of its interval, and the noise floor."""

    told: dict[str, str]
    commits: Sequence[str]
    cost: np.ndarray
    half: np.ndarray
    floor: np.ndarray


def steps(results: pd.DataFrame, order: Sequence[str]) -> list[Step]:
    """Every step of every history in the frame, the largest losses first.

    order: full hashes of the commits, the oldest first; results of others and of changed working trees are left out.
    """
    metric = results["metric"]
    known = results["commit"].isin(order) & (results["status"] == OK) & ~is_ceiling(results["function"])
    # Without samples a speedup has no interval, and so no step.
    telling = (results["variant"] == "eager") | results["samples"].map(bool).astype(bool)
    times, bytes_ = results[known & telling & (metric == "time_s")], results[known & metric.isin(BYTES)]
    found = [
        step
        for costs in (_times(add_speedups(times)), _bytes(bytes_))
        for history in _histories(costs, order)
        for step in _steps(history)
    ]
    return sorted(found, key=lambda step: step.factor, reverse=True)


def _times(times: pd.DataFrame) -> pd.DataFrame:
    """Relative to eager of the same run, but eager's own as they are. No cost: a clock that went backwards."""
    relative = (times["variant"] != "eager") & times["speedup"].notna()
    value, low, high = (
        found.where(relative, times[own])
        for own, found in (
            ("value", 1 / times["speedup"]), ("low", times["speedup_low"]), ("high", times["speedup_high"]),
        )
    )  # fmt: skip
    positive = (value > 0) & (low > 0) & (high > 0)
    cost, half = np.log(value.where(positive)), np.log((high / low).where(positive)) / 2
    return times[[*HISTORY, "commit", "date"]].assign(cost=cost, half=half, floor=times["floor"].fillna(0.0))


def _bytes(rows: pd.DataFrame) -> pd.DataFrame:
    # From nothing to something is a step too.
    return rows[[*HISTORY, "commit", "date"]].assign(cost=np.log(rows["value"].clip(lower=0) + 1), half=0.0, floor=0.0)


def _histories(costs: pd.DataFrame, order: Sequence[str]) -> Iterator[_History]:
    """In the order of commits; of several results of one commit the last, and none where that has no cost."""
    place = {commit: number for number, commit in enumerate(order)}
    dated = costs.sort_values("date", kind="stable", na_position="first")
    number = dated.groupby(HISTORY, sort=False, dropna=False).ngroup()
    last = dated.assign(number=number, place=dated["commit"].map(place)).drop_duplicates(
        ["number", "place"], keep="last"
    )
    rows = last[last["cost"].notna()].sort_values(["number", "place"])
    commits, cost, half, floor = (rows[name].to_numpy() for name in ("commit", "cost", "half", "floor"))
    starts = np.flatnonzero(np.diff(rows["number"], prepend=-1))
    keys = rows[IDENTITY].iloc[starts].itertuples(index=False, name=None)
    for key, start, end in zip(keys, starts, [*starts, len(rows)][1:], strict=True):
        own = slice(start, end)
        yield _History(dict(zip(IDENTITY, key, strict=True)), commits[own].tolist(), cost[own], half[own], floor[own])


def _steps(history: _History) -> Iterator[Step]:
    cost, exact = history.cost, history.told["metric"] != "time_s"
    changes = np.diff(cost)
    halves = np.hypot(history.half[1:], history.half[:-1])
    floors = np.maximum(history.floor[1:], history.floor[:-1])
    # Beyond both intervals and the floor; of few of them it is asked what is usual.
    beyond = np.abs(changes) > np.maximum(halves + floors, 0.0 if exact else math.log1p(SAME))
    for number in np.flatnonzero(beyond).tolist():
        change, half, floor = (float(found[number]) for found in (changes, halves, floors))
        usual = _usual(changes, number)
        if not exact and not (abs(change) > TOO_MANY * (usual or 0.0) and _lasts(cost, number)):
            continue
        yield Step(
            **history.told, commit=history.commits[number + 1], before=history.commits[number], factor=math.exp(change),
            low=math.exp(change - half), high=math.exp(change + half), floor=math.expm1(floor),
            usual=None if usual is None else math.expm1(usual),
        )  # fmt: skip


def _usual(changes: np.ndarray, number: int) -> float | None:
    """One standard deviation of the other changes, by their median size."""
    others = np.abs(np.delete(changes, number))
    return DEVIATION * float(np.median(others)) if len(others) >= FEWEST_OTHERS else None


def _lasts(cost: np.ndarray, number: int) -> bool:
    """Whether the neighbours, where there are any, lie on their own side of the step: one odd commit is none."""
    before, after = cost[number], cost[number + 1]
    middle, rises = (before + after) / 2, after > before
    earlier, later = cost[max(0, number - 1) : number], cost[number + 2 : number + 3]
    return bool(((earlier < middle) == rises).all() and ((later > middle) == rises).all())
