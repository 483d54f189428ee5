"""Of one Function: what each variant can do beside its values and gradients, as the checks found it."""

from __future__ import annotations

import pandas as pd

from ...records import FAILED, OK
from .. import order
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, anchor, missing
from .checks import found_of

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
    found = found_of(inputs.results)
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
                Cell(str(variant)),
                *(_cell(rows[rows["metric"].isin(rules)]) for rules in CAPABILITIES.values()),
                Cell(str(device)),
            ),
            {"variant": str(variant), "device": str(device)},
        )
        for (variant, device), rows in found.groupby(["variant", "device"], sort=False)
    )
    ordered = tuple(sorted(rows, key=lambda row: order.variant_rank(str(row.cells[0].value))))
    table = Table(f"{function}: {CAPTION}", columns, ordered)
    return Section("Capabilities", anchor(function, "capabilities"), (table,))


def _cell(rows: pd.DataFrame) -> Cell:
    """The worst of what the rules say over workloads and dtypes."""
    told = list(rows[["status", "reason", "detail"]].itertuples(index=False, name=None))
    lost = [reason for status, reason, _ in told if status == FAILED]
    if lost:
        return Cell(status="wrong", reason=lost[0], tone="bad")
    lacking = [reason for status, reason, detail in told if status == OK and detail.get("findings")]
    if lacking:
        return Cell(status="no", reason=lacking[0])
    if any(status == OK for status, _, _ in told):
        return Cell("yes", tone="good")
    return missing(next((reason for _, reason, _ in told if reason), "not checked"))
