"""Of one Function: every metric that is no time, such as bytes held, peaks and leaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import order, speedup
from ..inputs import Inputs
from ..model import Column, Kind, Row, Section, Table, anchor, missing
from .variants import measured, text

CASE = ["variant", "workload", "phase", "dtype", "device", "machine"]
KINDS: dict[str, Kind] = {"bytes": "bytes", "s": "seconds"}
MEANINGS = {
    "saved_bytes": "what the saved-tensor hooks see, each storage once",
    "saved_new_bytes": "saved storages that are neither an input's nor an output's",
    "held_bytes": "live after the forward beyond inputs and outputs, whatever holds it",
    "hidden_bytes": "held, but not seen by the hooks: stashed on ctx, in a closure or a global",
    "peak_bytes": "high-water mark above the start of the phase",
    "leaked_bytes": "left when the backward has run and the graph is gone",
    "first_call_s": "the first call, compilation included",
}


def section(inputs: Inputs) -> Section:
    """One row a case and phase, one column a metric."""
    rows = inputs.results
    rows = speedup.newest(rows[(rows["metric"] != "time_s") & (rows["phase"] != "check") & (rows["source"] != "check")])
    if rows.empty:
        return Section("Memory and more", "memory")
    function = rows["function"].iloc[0]
    metrics = dict(zip(rows["metric"], rows["unit"], strict=True))
    names = [*(name for name in MEANINGS if name in metrics), *sorted(set(metrics) - set(MEANINGS))]
    columns = (
        *map(Column, ("Variant", "Workload", "Phase")),
        *(_column(name, metrics[name]) for name in names),
        *map(Column, ("dtype", "Device", "Machine")),
    )
    made = tuple(_row(case, names) for case in order.groups(order.sort(rows), CASE).values())
    return Section("Memory and more", anchor(function, "memory"), (Table(f"{function}: memory", columns, made),))


def _column(metric: str, unit: str) -> Column:
    title = metric.removesuffix("_bytes").removesuffix("_s").replace("_", " ").capitalize()
    return Column(title, KINDS.get(unit, "number"), MEANINGS.get(metric, ""))


def _row(rows: Sequence[dict[Any, Any]], metrics: list[str]) -> Row:
    by_metric = {row["metric"]: row for row in rows}
    case = rows[0]
    cells = (measured(by_metric[name]) if name in by_metric else missing("not of this phase") for name in metrics)
    told = [text(case[name]) for name in CASE]
    return Row((*told[:3], *cells, *told[3:]), order.tags(case, "phase"))
