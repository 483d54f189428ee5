"""How near a time comes to what the machine reaches: bytes and operations a second, derived from the frame.

The bytes and operations are the least that a phase needs, as its Spec declares them: a variant that moves more shows a
lower rate, and none can be flattered by its own waste.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from . import registry
from .records import OK, is_ceiling
from .spec import Cost, Spec, dtype_named

# A ceiling is only that of rows that share all of these.
TOGETHER = ["device", "machine", "commit", "run", "source", "threads"]
COLUMNS = ("gb_per_s", "gflop_per_s", "percent_of_ceiling")
GIGA = 1e9


class Rates(NamedTuple):
    """Of one time. bound: which of the two percentages is the larger, "bytes" or "operations"; "" for neither."""

    gb_per_s: float = math.nan
    gflop_per_s: float = math.nan
    percent_of_ceiling: float = math.nan
    bound: str = ""


def add_rates(times: pd.DataFrame, ceilings: pd.DataFrame | Mapping[str, float]) -> pd.DataFrame:
    """The `time_s` rows with columns gb_per_s, gflop_per_s, percent_of_ceiling and bound.

    ceilings: a frame with what `measure.ceilings` measured, of which each row takes that of its own run and device (the
    copy whose traffic is nearest to its own, the matrix product of its dtype); or {"copy": GB/s, "float32": GFLOP/s}.
    percent_of_ceiling is the larger of the two. NaN where the Spec declares nothing, or has changed since the row was
    measured, where there is no time, or no ceiling. A row beyond 100 % works in a cache that the copy did not fit.
    """
    rows = times[(times["metric"] == "time_s") & ~is_ceiling(times["function"])].copy()
    known = _Ceilings(ceilings)
    specs = {name: registry.spec(name) for name in set(rows["function"].unique()) & set(registry.every_name())}
    found = [_rates(row, specs.get(row.function), known) for row in rows.itertuples()]
    for column in COLUMNS:
        rows[column] = pd.Series([getattr(rates, column) for rates in found], index=rows.index, dtype="float64")
    rows["bound"] = [rates.bound for rates in found]
    return rows


class _Ceilings:
    """What the machine reaches, looked up for a row."""

    def __init__(self, given: pd.DataFrame | Mapping[str, float]) -> None:
        self.given = None if isinstance(given, pd.DataFrame) else given
        # A copy is (bytes, bytes a second); a matrix product is by its dtype.
        self.copies: dict[tuple[str, ...], list[tuple[float, float]]] = {}
        self.products: dict[tuple[str, ...], float] = {}
        if isinstance(given, pd.DataFrame):
            chosen = given[is_ceiling(given["function"]) & (given["metric"] == "time_s") & (given["status"] == OK)]
            for row in chosen.itertuples():
                self._add(row)

    def _add(self, row: Any) -> None:
        if row.variant == "copy":
            self.copies.setdefault(_key(row), []).append((row.detail["bytes"], row.detail["bytes"] / row.value))
        elif row.variant == "matmul":
            self.products[(*_key(row), row.dtype)] = row.detail["flops"] / row.value

    def bytes_per_s(self, row: Any, moved: float) -> float:
        if self.given is not None:
            return self.given.get("copy", math.nan) * GIGA
        copies = self.copies.get(_key(row))
        if not copies or not moved:
            return math.nan
        return min(copies, key=lambda copy: abs(math.log(copy[0] / moved)))[1]

    def operations_per_s(self, row: Any) -> float:
        if self.given is not None:
            return self.given.get(row.dtype, math.nan) * GIGA
        return self.products.get((*_key(row), row.dtype), math.nan)


def _key(row: Any) -> tuple[str, ...]:
    return tuple(str(getattr(row, column)) for column in TOGETHER)


def _rates(row: Any, spec: Spec | None, ceilings: _Ceilings) -> Rates:
    stale = spec is None or row.workload not in spec.workloads or row.version not in ("", spec.version)
    if spec is None or stale or not row.value > 0:
        return Rates()
    moved, done = _cost(spec.moved_bytes, spec.workloads, row), _cost(spec.operations, spec.workloads, row)
    percents = {
        "bytes": 100 * moved / row.value / ceilings.bytes_per_s(row, moved),
        "operations": 100 * done / row.value / ceilings.operations_per_s(row),
    }
    there = {name: percent for name, percent in percents.items() if not math.isnan(percent)}
    bound = max(there, key=there.__getitem__) if there else ""
    return Rates(moved / row.value / GIGA, done / row.value / GIGA, there.get(bound, math.nan), bound)


def _cost(cost: Cost | None, workloads: Mapping[str, Any], row: Any) -> float:
    return math.nan if cost is None else cost(row.phase, workloads[row.workload], dtype_named(row.dtype).itemsize)
