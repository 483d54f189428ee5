"""Of one Function: time over size, one line a variant, with the sizes at which two of them take equally long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from ...breakeven import NONE, sizes_of
from ...records import OK
from .. import order, speedup
from ..derived import crossings, current
from ..inputs import Inputs
from ..model import Mark, Plot, Point, Section, Series, anchor, several
from .times import bound, told

ONE_PLOT = ["device", "dtype", "phase"]


def section(inputs: Inputs) -> Section:
    """One plot a phase, dtype and device with at least two sizes, on two log axes."""
    rows = inputs.derived.frame(current)
    found = rows[(rows["status"] == OK) & (rows["value"] > 0)]
    found = found.assign(elements=sizes_of(found))
    found = order.sort(found[found["elements"] > 0])
    apart = speedup.apart(found)
    one_plot = [*ONE_PLOT, *apart]
    crossed = inputs.derived.frame(crossings)
    crossed = crossed[(crossed["result"] != NONE) & crossed["clear"].astype(bool)]
    marks = order.groups(crossed, one_plot)
    plots = tuple(
        _plot(rows, apart, tuple(_marks(marks.get(key, ()))))
        for key, rows in order.groups(found, one_plot).items()
        if several(row["elements"] for row in rows)
    )
    names = inputs.results["function"].unique()
    return Section("Time over size", anchor(*names, "sizes"), plots)


def _marks(crossed: Iterable[Mapping[Any, Any]]) -> Iterable[Mark]:
    """Where two variants surely change places."""
    return (Mark(row["elements"], f"{row['faster_above']} beats {row['faster_below']}") for row in crossed)


def _plot(rows: Sequence[dict[Any, Any]], apart: list[str], marks: tuple[Mark, ...]) -> Plot:
    first = rows[0]
    words = [first["phase"], first["dtype"], first["device"], *(told(name, first[name]) for name in apart)]
    series = (_series(name, found) for (name,), found in order.groups_of(rows, ["variant"]).items())
    return Plot(
        " · ".join(words),
        "elements of the largest input",
        "time",
        "seconds",
        (),
        tuple(sorted(series, key=lambda line: order.variant_rank(line.name))),
        lines=True,
        tags=order.tags(first, "variant", "workload"),
        x_kind="number",
        marks=marks,
    )


def _series(variant: str, rows: Sequence[Mapping[Any, Any]]) -> Series:
    points = tuple(
        Point(
            float(row["elements"]), row["value"], bound(row["low"]), bound(row["high"]), row["workload"],
            {"workload": row["workload"]},
        )
        for row in sorted(rows, key=itemgetter("elements"))
    )  # fmt: skip
    return Series(variant, order.kind(variant), points, {"variant": variant})
