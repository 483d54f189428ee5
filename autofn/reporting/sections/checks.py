"""Of one Function: which rules its variants keep, and every finding and refusal with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ...records import FAILED, OK, UNAVAILABLE
from .. import order, speedup
from ..derived import Derived
from ..inputs import Inputs
from ..model import Badge, Cell, Column, Row, Section, Table, anchor, missing

# As a finding's severity calls it.
WARNING = "warning"

Rows = Sequence[Mapping[Any, Any]]


def section(inputs: Inputs) -> Section:
    """How many rules each variant keeps, then the findings; every rule, and what could not be checked, is folded."""
    found = inputs.derived.frame(checked)
    if found.empty:
        return Section("Checks", "checks")
    function = found["function"].iloc[0]
    warned = found[(found["status"] == OK) & found["detail"].map(_warns)].assign(status=WARNING)
    findings = pd.concat([found[found["status"] == FAILED], warned])
    lacking = found[found["status"] == UNAVAILABLE]
    tables = (
        _counts(function, found),
        _reasons(f"{function}: findings", findings),
        _rules(function, found),
        _reasons(f"{function}: what could not be checked", lacking, folded="What could not be checked, and why"),
    )
    return Section("Checks", anchor(function, "checks"), tuple(table for table in tables if table.rows))


def verdicts(inputs: Inputs) -> dict[tuple[str, str, str], Cell]:
    """{(Function, variant, device): how many checks passed, linked to the reasons}."""
    groups = order.groups(inputs.derived.frame(checked), ["function", "variant", "device"])
    return {(function, *case): _verdict(rows, inputs.detail) for (function, *case), rows in groups.items()}


def badge(cell: Cell) -> Badge:
    """A verdict as a mark beside another value."""
    return Badge(str(cell.value or cell.status), cell.tone, cell.link)


def checked(derived: Derived) -> pd.DataFrame:
    """The newest result of each check, in the order of the tables."""
    results = derived.results
    return order.sort(speedup.newest(results[(results["phase"] == "check") | (results["source"] == "check")]))


def _verdict(rows: Rows, page: str) -> Cell:
    link = f"{page}#{anchor(rows[0]['function'], 'checks')}"
    commits = sorted({row["commit"][:8] for row in rows if row["commit"]})
    note = f"checked at {', '.join(commits)}" if commits else ""
    failed, passed = (_count(rows, status) for status in (FAILED, OK))
    if failed:
        return Cell(f"{failed} of {failed + passed} failed", note=note, tone="bad", link=link)
    if passed:
        return Cell(f"{passed} passed", note=note, tone="good", link=link)
    return Cell(status=UNAVAILABLE, reason=rows[0]["reason"] or "no reason recorded", link=link)


def _count(rows: Rows, status: str) -> int:
    return sum(row["status"] == status for row in rows)


def _warns(detail: Mapping[str, Any]) -> bool:
    found = detail.get("findings", ())
    return "suppressed" not in detail and any(each.get("severity") == WARNING for each in found)


def _counts(function: str, found: pd.DataFrame) -> Table:
    columns = (Column("Variant"), *(Column(title, "number") for title in ("Passed", "Failed", "n/a")), Column("Device"))
    rows = tuple(
        Row(
            (
                Cell(variant),
                Cell(float(_count(rows, OK))),
                Cell(float(failed), tone="bad" if failed else ""),
                Cell(float(_count(rows, UNAVAILABLE))),
                Cell(device),
            ),
            {"variant": variant, "device": device},
        )
        for (variant, device), rows in order.groups(found, ["variant", "device"]).items()
        for failed in [_count(rows, FAILED)]
    )
    return Table(f"{function}: checks, a rule on a workload in a dtype each", columns, rows)


def _rules(function: str, found: pd.DataFrame) -> Table:
    variants = order.names("variant", found["variant"])
    columns = (Column("Rule", "code"), *(Column(name, tags={"variant": name}) for name in variants))
    # Plain tuples: a frame of a rule and variant each would take seconds a Function.
    of: dict[str, dict[str, list[Checked]]] = {}
    for rule, variant, *told in found[["metric", "variant", "status", "reason", "value"]].itertuples(index=False):
        of.setdefault(rule, {}).setdefault(variant, []).append(Checked(*told))
    rows = tuple(
        Row((Cell(rule), *(_rule(by_variant.get(name, [])) for name in variants))) for rule, by_variant in of.items()
    )
    caption = f"{function}: rules by variants, over workloads and dtypes"
    return Table(caption, columns, rows, f"Every rule by variants ({len(rows)})")


class Checked(NamedTuple):
    """What a rule said of one case. error: the worst that it measured; NaN for none."""

    status: str
    reason: str
    error: float


def _rule(checked: Sequence[Checked]) -> Cell:
    if not checked:
        return missing("not checked")
    failed, passed = ([each for each in checked if each.status == status] for status in (FAILED, OK))
    if failed:
        return Cell(f"{len(failed)} of {len(failed) + len(passed)} failed", tone="bad", note=failed[0].reason)
    if not passed:
        return missing(checked[0].reason or "no reason recorded")
    worst = max((each.error for each in passed if not math.isnan(each.error)), default=None)
    return Cell(f"{len(passed)} passed", tone="good", note="" if worst is None else f"worst error {worst:.3g}")


def _reasons(caption: str, rows: pd.DataFrame, folded: str = "") -> Table:
    """Failures first; cases with one reason share a row. A choice of dtypes or workloads hides none of them."""
    columns = (
        Column("Variant"),
        Column("Status"),
        Column("Reason"),
        Column("Worst error", "number"),
        *map(Column, ("Rules", "Workloads", "dtypes", "Device")),
    )
    ordered = rows.sort_values("status", key=lambda status: status != FAILED, kind="stable")
    groups = order.groups(ordered, ["status", "variant", "device", "reason"]).values()
    made = tuple(Row(_reason_cells(rows), order.tags(rows[0], "phase", "dtype", "workload")) for rows in groups)
    return Table(caption, columns, made, folded)


def _reason_cells(rows: Rows) -> tuple[Cell, ...]:
    first = rows[0]
    worst = max((row["value"] for row in rows if not math.isnan(row["value"])), default=None)
    listed = ("metric", "workload", "dtype", "device")
    return (
        Cell(first["variant"]),
        Cell(first["status"], tone="bad" if first["status"] == FAILED else ""),
        Cell(first["reason"] or "no reason recorded"),
        missing("no number") if worst is None else Cell(worst),
        *(Cell(", ".join(order.names(name, (row[name] for row in rows))) or "none of its own") for name in listed),
    )
