"""Of one Function: the time of a training step against the bytes saved for its backward, and who dominates whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ...records import OK
from .. import order, speedup
from ..inputs import Inputs
from ..model import Cell, Column, Plot, Point, Row, Section, Series, Table, anchor
from .times import bound, told

STEP = "forward_backward"
CAPTION = (
    "who dominates whom: a variant dominates another that saves no less where its whole interval of time lies below, "
    "and one that saves more where its time is not the longer one"
)
COLUMNS = (
    *map(Column, ("Variant", "Workload")),
    Column("Time", "seconds", "of a training step: the median, and the 95 % interval below it"),
    Column("Saved", "bytes", "what the saved-tensor hooks see"),
    Column("Dominated by"),
    *map(Column, ("dtype", "Device", "Machine")),
)


def section(inputs: Inputs) -> Section:
    """One plot a workload, dtype and device of which both are known of two variants, and a table of all."""
    found = _both(inputs.results)
    apart = speedup.apart(found)
    one_plot = ["device", "dtype", "workload", *apart]
    compared = [rows for rows in order.groups(found, one_plot).values() if len(rows) > 1]
    if not compared:
        return Section("Time against memory", "tradeoff")
    function = str(found["function"].iloc[0])
    table = Table(f"{function}: {CAPTION}", COLUMNS, tuple(_row(row, rows) for rows in compared for row in rows))
    plots = (_plot(rows, apart) for rows in compared)
    return Section("Time against memory", anchor(function, "tradeoff"), (*plots, table))


def dominates(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Whether the one is never worse and surely better in time, or in bytes."""
    if one["saved"] > other["saved"]:
        return False
    if one["saved"] < other["saved"]:
        return bool(one["value"] <= other["value"])
    return bool(one["high"] < other["low"])


def _both(results: pd.DataFrame) -> pd.DataFrame:
    """The newest times of a step that ran, with the saved bytes of their case."""
    ran, metric = (results["status"] == OK) & (results["value"] >= 0), results["metric"]
    timed = ran & (metric == "time_s") & (results["phase"] == STEP) & (results["value"] > 0)
    times = speedup.newest(results[timed])
    saved = speedup.newest(results[ran & (metric == "saved_bytes")])
    case = ["function", "variant", "workload", "dtype", "device", "machine"]
    bytes_of = saved.drop_duplicates(case, keep="last")[[*case, "value"]].rename(columns={"value": "saved"})
    return order.sort(times.merge(bytes_of, on=case))


def _dominating(row: Mapping[Any, Any], rows: Sequence[Mapping[Any, Any]]) -> list[str]:
    return [str(other["variant"]) for other in rows if dominates(other, row)]


def _row(row: Mapping[Any, Any], rows: Sequence[Mapping[Any, Any]]) -> Row:
    names = _dominating(row, rows)
    return Row(
        (
            *(Cell(row[name]) for name in ("variant", "workload")),
            Cell(row["value"], bound(row["low"]), bound(row["high"])),
            Cell(row["saved"]),
            Cell(", ".join(names)) if names else Cell("none", tone="good"),
            *(Cell(row[name]) for name in ("dtype", "device", "machine")),
        ),
        order.tags(row),
    )


def _plot(rows: Sequence[Mapping[Any, Any]], apart: list[str]) -> Plot:
    first = rows[0]
    words = [first["workload"], first["dtype"], first["device"], *(told(name, first[name]) for name in apart)]
    return Plot(
        " · ".join(words),
        "saved bytes",
        "time of a step",
        "seconds",
        (),
        tuple(_series(row, rows) for row in rows),
        tags=order.tags(first, "variant"),
        x_kind="bytes",
    )


def _series(row: Mapping[Any, Any], rows: Sequence[Mapping[Any, Any]]) -> Series:
    names = _dominating(row, rows)
    note = f"dominated by {', '.join(names)}" if names else "dominated by none"
    point = Point(row["saved"], row["value"], bound(row["low"]), bound(row["high"]), note, faint=bool(names))
    return Series(row["variant"], order.kind(row["variant"]), (point,), {"variant": row["variant"]})
