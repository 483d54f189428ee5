"""Of one Function: what each variant can do beside its values and gradients, as the checks found it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...records import FAILED, OK
from .. import order
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, anchor, missing
from .checks import checked

# By the rules that say so; a capability is there where all that ran found nothing.
CAPABILITIES = {
    "Second derivative": ("double-backward",),
    "vmap": ("vmap",),
    "Forward mode": ("jvp",),
    "torch.func": ("func-grad", "nested-transforms"),
    "torch.compile": ("compile-graph", "compile-values"),
    "autocast": ("autocast",),
    "opcheck": ("opcheck", "opcheck-dispatch"),
    "Deterministic": ("determinism",),
}

CAPTION = "what a variant can do; `no` is refused with an error, `wrong` is silent"


def section(inputs: Inputs) -> Section:
    """One row a variant and device; empty where nothing was checked."""
    found = inputs.derived.frame(checked)
    if found.empty:
        return Section("Capabilities", "capabilities")
    function = found["function"].iloc[0]
    columns = (
        Column("Variant"),
        *(Column(title, note=f"as the rules {', '.join(rules)} say") for title, rules in CAPABILITIES.items()),
        Column("Device"),
    )
    rows = tuple(
        Row(
            (
                Cell(variant),
                *(_cell([row for row in rows if row["metric"] in rules]) for rules in CAPABILITIES.values()),
                Cell(device),
            ),
            {"variant": variant, "device": device},
        )
        for (variant, device), rows in order.groups(found, ["variant", "device"]).items()
    )
    ordered = tuple(sorted(rows, key=lambda row: order.variant_rank(str(row.cells[0].value))))
    table = Table(f"{function}: {CAPTION}", columns, ordered)
    return Section("Capabilities", anchor(function, "capabilities"), (table,))


def _cell(rows: Sequence[Mapping[Any, Any]]) -> Cell:
    """The worst of what the rules say over workloads and dtypes."""
    lost = [row["reason"] for row in rows if row["status"] == FAILED]
    if lost:
        return Cell(status="wrong", reason=lost[0], tone="bad")
    kept = [row for row in rows if row["status"] == OK]
    lacking = [row["reason"] for row in kept if row["detail"].get("findings")]
    if lacking:
        return Cell(status="no", reason=lacking[0])
    if kept:
        return Cell("yes", tone="good")
    return missing(next((row["reason"] for row in rows if row["reason"]), "not checked"))
