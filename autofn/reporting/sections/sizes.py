"""Of one Function: time over size, one line a variant, with the sizes at which two of them take equally long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ...breakeven import NONE, break_even, sizes_of
from ...records import OK
from .. import order, speedup
from ..inputs import Inputs
from ..model import Mark, Plot, Point, Section, Series, anchor
from .times import bound, told

ONE_PLOT = ["device", "dtype", "phase"]
DRAWN = ["workload", "elements", "value", "low", "high"]


def section(inputs: Inputs) -> Section:
    """One plot a phase, dtype and device with at least two sizes, on two log axes."""
    current = speedup.current(inputs.results)
    found = current[(current["status"] == OK) & (current["value"] > 0)]
    found = found.assign(elements=sizes_of(found))
    found = order.sort(found[found["elements"] > 0])
    apart = speedup.apart(found)
    crossings = break_even(current)
    one_plot = [*ONE_PLOT, *apart]
    plots = tuple(
        _plot(rows, apart, _marks(crossings, dict(zip(one_plot, key, strict=True))))
        for key, rows in found.groupby(one_plot, sort=False, dropna=False)
        if rows["elements"].nunique() > 1
    )
    names = inputs.results["function"].unique()
    return Section("Time over size", anchor(*names, "sizes"), plots)


def _marks(crossings: pd.DataFrame, wanted: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Where two variants surely change places, in this plot."""
    rows = crossings[(crossings["result"] != NONE) & crossings["clear"].astype(bool)]
    for name, value in wanted.items():
        rows = rows[rows[name].isna() if pd.isna(value) else rows[name] == value]
    pairs = zip(rows["elements"], rows["faster_above"], rows["faster_below"], strict=True)
    return tuple(Mark(float(size), f"{above} beats {below}") for size, above, below in pairs)


def _plot(rows: pd.DataFrame, apart: list[str], marks: tuple[Mark, ...]) -> Plot:
    first = rows.iloc[0]
    words = [first["phase"], first["dtype"], first["device"], *(told(name, first[name]) for name in apart)]
    series = (_series(str(name), found) for name, found in rows.groupby("variant", sort=False))
    return Plot(
        " · ".join(words),
        "elements of the largest input",
        "time",
        "seconds",
        (),
        tuple(sorted(series, key=lambda line: order.variant_rank(line.name))),
        lines=True,
        tags=order.tags(first.to_dict(), "variant", "workload"),
        x_kind="number",
        marks=marks,
    )


def _series(variant: str, rows: pd.DataFrame) -> Series:
    points = tuple(
        Point(
            float(row["elements"]), row["value"], bound(row["low"]), bound(row["high"]), row["workload"],
            {"workload": row["workload"]},
        )
        for row in rows[DRAWN].sort_values("elements").to_dict("records")
    )  # fmt: skip
    return Series(variant, order.kind(variant), points, {"variant": variant})
