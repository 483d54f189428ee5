"""For each Function, device, dtype and phase: which variant is best, by how much, what it keeps, and what changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..records import FAILED, OK
from ..regressions import Step
from . import order, speedup
from .derived import current
from .inputs import Inputs

GROUP = ["function", "device", "dtype", "phase", *speedup.SHOWN_APART]


@dataclass(frozen=True)
class Verdict:
    """best: the variant with the largest geometric mean of its speedups over the workloads; those of which a check
    failed, and those that lack a workload, come last. low, high: the mean of the bounds; None where one is unknown.

    clear: whether all workloads that surely differ from 1 say the same, and there is one. saved_bytes,
    baseline_saved_bytes: over the workloads that both have; None for none. change: the largest step of `best` since the
    base commit, cost after / cost before; None for no step.
    """

    function: str
    device: str
    dtype: str
    phase: str
    machine: str
    threads: str
    allocator: str
    cache: str
    way: str
    best: str
    speedup: float
    low: float | None
    high: float | None
    clear: bool
    saved_bytes: float | None
    baseline_saved_bytes: float | None
    change: float | None


def verdicts(inputs: Inputs) -> list[Verdict]:
    """One a Function, device, dtype, phase and conditions that has a speedup, in the order of the tables."""
    found = order.sort(inputs.derived.frame(current))
    found = found[found["speedup"] > 0]
    if found.empty:
        return []
    failed, kept = _failed(inputs.results), _saved(inputs.results)
    steps = _steps(inputs.changes)
    return [
        _verdict(dict(zip(GROUP, key, strict=True)), rows, (failed, kept, steps))
        for key, rows in order.groups(found, GROUP).items()
    ]


def _verdict(told: dict[str, Any], rows: Sequence[Mapping[Any, Any]], known: tuple[Any, ...]) -> Verdict:
    failed, kept, steps = known
    by_variant: dict[str, list[Mapping[Any, Any]]] = {}
    for row in rows:
        by_variant.setdefault(row["variant"], []).append(row)

    def worth(name: str) -> tuple[bool, int, float]:
        passed = (told["function"], name, told["device"]) not in failed
        return passed, len(by_variant[name]), _mean(by_variant[name], "speedup") or 0.0

    best = max(by_variant, key=worth)
    mine = by_variant[best]
    ways = {bool(row["speedup"] > 1) for row in mine if row["clear"]}
    case = (told["function"], told["dtype"], told["device"], told["machine"])
    saved, baseline = _both(kept.get((best, *case), {}), kept.get((speedup.BASELINE, *case), {}))
    return Verdict(
        **{name: "" if pd.isna(value) else str(value) for name, value in told.items()},
        best=best,
        speedup=_mean(mine, "speedup") or math.nan,
        low=_mean(mine, "speedup_low"),
        high=_mean(mine, "speedup_high"),
        clear=len(ways) == 1,
        saved_bytes=saved,
        baseline_saved_bytes=baseline,
        change=steps.get((best, *case, told["phase"])),
    )


def _mean(rows: Sequence[Mapping[Any, Any]], name: str) -> float | None:
    """The geometric mean; None where a value is missing."""
    values = [row[name] for row in rows]
    if any(pd.isna(value) or value <= 0 for value in values):
        return None
    return math.exp(sum(map(math.log, values)) / len(values))


def _failed(results: pd.DataFrame) -> set[tuple[str, str, str]]:
    """(Function, variant, device) of which a check failed."""
    rows = speedup.newest(results[results["phase"] == "check"])
    lost = rows[rows["status"] == FAILED]
    return set(zip(lost["function"], lost["variant"], lost["device"], strict=True))


def _saved(results: pd.DataFrame) -> dict[tuple[str, ...], dict[str, float]]:
    """{(variant, Function, dtype, device, machine): {workload: bytes}}."""
    rows = speedup.newest(results[(results["metric"] == "saved_bytes") & (results["status"] == OK)])
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows.itertuples():
        key = (str(row.variant), str(row.function), str(row.dtype), str(row.device), str(row.machine))
        found.setdefault(key, {})[str(row.workload)] = float(row.value)  # type: ignore[arg-type]
    return found


def _both(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[float | None, float | None]:
    common = one.keys() & other.keys()
    if not common:
        return None, None
    return sum(one[name] for name in common), sum(other[name] for name in common)


def _steps(changes: Sequence[Step]) -> dict[tuple[str, ...], float]:
    """The largest step in time of a variant's workloads: the largest loss, where there is none the largest gain."""
    found: dict[tuple[str, ...], list[float]] = {}
    for step in _timed(changes):
        key = (step.variant, step.function, step.dtype, step.device, step.machine, step.phase)
        found.setdefault(key, []).append(step.factor)
    return {key: max(factors) if max(factors) > 1 else min(factors) for key, factors in found.items()}


def _timed(changes: Sequence[Step]) -> Iterator[Step]:
    return (step for step in changes if step.metric == "time_s")
