"""Of one Function: time by workload, one set of markers a variant, one plot a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ...records import OK
from .. import order, speedup
from ..derived import current
from ..inputs import Inputs
from ..model import Plot, Point, Section, Series, anchor

ONE_PLOT = ["device", "dtype", "phase"]


def section(inputs: Inputs) -> Section:
    """Log-scaled times with their 95 % intervals. What has no time is in the table, with its reason."""
    rows = inputs.derived.frame(current)
    found = order.sort(rows[(rows["status"] == OK) & (rows["value"] > 0)])
    if found.empty:
        return Section("Time by workload", "times")
    apart = speedup.apart(found)
    plots = tuple(_plot(rows, apart) for rows in order.groups(found, [*ONE_PLOT, *apart]).values())
    return Section("Time by workload", anchor(found["function"].iloc[0], "times"), plots)


def _plot(rows: Sequence[dict[Any, Any]], apart: list[str]) -> Plot:
    first = rows[0]
    words = [first["phase"], first["dtype"], first["device"], *(told(name, first[name]) for name in apart)]
    series = (_series(name, found) for (name,), found in order.groups_of(rows, ["variant"]).items())
    return Plot(
        " · ".join(words),
        "workload",
        "time",
        "seconds",
        tuple(order.names("workload", (row["workload"] for row in rows))),
        tuple(sorted(series, key=lambda line: order.variant_rank(line.name))),
        tags=order.tags(first, "variant", "workload"),
    )


def told(name: str, value: object) -> str:
    """A condition in the title of a plot: "bench-1", "allocator settled"."""
    if value is pd.NA or not value:
        return f"{name} not recorded"
    return str(value) if name == "machine" else f"{name} {value}"


def _series(variant: str, rows: Sequence[Mapping[Any, Any]]) -> Series:
    points = tuple(
        Point(row["workload"], row["value"], bound(row["low"]), bound(row["high"]), tags={"workload": row["workload"]})
        for row in rows
    )
    return Series(variant, order.kind(variant), points, {"variant": variant})


def bound(value: float) -> float | None:
    """The bound of an interval; None where there is none."""
    return None if pd.isna(value) else value
