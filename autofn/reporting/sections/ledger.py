"""Of one Function: each tensor that the graph keeps from forward to backward, and whose memory it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...records import OK
from .. import order, speedup
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, anchor, missing

COLUMNS = (
    Column("Variant"),
    Column("Workload"),
    Column("dtype"),
    Column("Device"),
    Column("Saved tensor", "code"),
    Column("Bytes", "bytes", "of its storage; each storage counts once"),
    Column("Whose", note="an input or output costs nothing more; `new` lives only for the backward"),
)


def section(inputs: Inputs) -> Section:
    """One row a saved storage, in the order of saving; empty where no result holds a ledger."""
    rows = inputs.results[(inputs.results["metric"] == "saved_bytes") & (inputs.results["status"] == OK)]
    found = order.sort(speedup.newest(rows)).to_dict("records")
    made = tuple(_row(case, entry) for case in found for entry in _entries(case["detail"]))
    if not made:
        return Section("Saved tensors", "saved")
    function = found[0]["function"]
    return Section("Saved tensors", anchor(function, "saved"), (Table(f"{function}: saved tensors", COLUMNS, made),))


def _entries(detail: object) -> Iterator[Mapping[str, Any]]:
    """The entries of the first list of objects in the detail, whatever it is called."""
    lists = (value for value in detail.values() if isinstance(value, list)) if isinstance(detail, dict) else iter(())
    yield from (entry for entry in next(lists, []) if isinstance(entry, dict))


def _row(case: Mapping[Any, Any], entry: Mapping[str, Any]) -> Row:
    size, whose = entry.get("bytes"), str(entry.get("alias", ""))
    shape = ", ".join(map(str, entry.get("shape", ())))
    return Row(
        (
            *(Cell(case[name]) for name in ("variant", "workload", "dtype", "device")),
            Cell(f"{entry.get('dtype', '')}[{shape}]"),
            Cell(float(size)) if isinstance(size, int | float) else missing("not recorded"),
            Cell(whose, tone="bad" if whose == "new" and size else "") if whose else missing("not recorded"),
        ),
        order.tags(case, "phase"),
    )
