"""Of one Function: from which size on one variant is faster than another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...breakeven import NONE
from .. import order, speedup
from ..derived import crossings
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, anchor, missing
from .variants import text

CAPTION = (
    "sizes, in elements of the largest input, at which two variants take equally long; between two measured sizes the "
    "ratio is interpolated on log scales, so take it as rough where these lie far apart"
)


def section(inputs: Inputs) -> Section:
    """One row a pair and crossing, of the newest result of each case; empty where there are not two sizes."""
    found = inputs.derived.frame(crossings)
    if found.empty:
        return Section("Break-even", "breakeven")
    function = found["function"].iloc[0]
    apart = speedup.apart(found)
    columns = (
        *map(Column, ("First", "Second")),
        Column("Equal at", "number", "elements of the largest input tensor"),
        *map(Column, ("Faster below", "Faster above")),
        Column("Clear", note="whether the ratios on either side, for none all of them, surely differ from 1"),
        Column("Measured next below", "number"),
        Column("Measured next above", "number"),
        Column("Smallest", "number", "size that was measured of both"),
        Column("Largest", "number", "size that was measured of both"),
        *map(Column, ("Phase", "dtype", "Device", *(speedup.SHOWN_APART[name] for name in apart))),
    )
    ranks = {phase: rank for rank, phase in enumerate(order.names("phase", found["phase"]))}
    by_phase = found.sort_values("phase", key=lambda phases: phases.map(ranks), kind="stable").to_dict("records")
    rows = tuple(_row(row, apart) for row in by_phase)
    return Section("Break-even", anchor(function, "breakeven"), (Table(f"{function}: {CAPTION}", columns, rows),))


def _row(row: Mapping[Any, Any], apart: list[str]) -> Row:
    none = row["result"] == NONE
    never = missing(_always(row))
    return Row(
        (
            *(Cell(row[name]) for name in ("first", "second")),
            never if none else Cell(float(round(row["elements"]))),
            *(text(row[name]) if row[name] else missing("equal") for name in ("faster_below", "faster_above")),
            Cell("yes") if row["clear"] else Cell("no", note="one of the ratios may be 1"),
            *(missing("they do not cross") if none else Cell(row[name]) for name in ("after", "before")),
            *(Cell(row[name]) for name in ("smallest", "largest")),
            *(text(row[name]) for name in ("phase", "dtype", "device", *apart)),
        ),
        order.tags(row),
    )


def _always(row: Mapping[Any, Any]) -> str:
    """Why there is no size."""
    return f"none: {row['faster_below']} is always faster" if row["faster_below"] else "none: equal at every size"
