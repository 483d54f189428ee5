"""Of one Function: which rules its variants keep, and every finding and refusal with its reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ...records import FAILED, OK, UNAVAILABLE
from .. import order, speedup
from ..inputs import Inputs
from ..model import Badge, Cell, Column, Row, Section, Table, anchor, missing

# As a finding's severity calls it.
WARNING = "warning"


def section(inputs: Inputs) -> Section:
    """How many rules each variant keeps, then the findings; every rule, and what could not be checked, is folded."""
    found = found_of(inputs.results)
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


def verdicts(inputs: Inputs) -> dict[tuple[str, str], Cell]:
    """{(variant, device): how many checks of one Function passed, linked to the reasons}."""
    return {
        (str(variant), str(device)): _verdict(rows, inputs.detail)
        for (variant, device), rows in found_of(inputs.results).groupby(["variant", "device"])
    }


def badge(cell: Cell) -> Badge:
    """A verdict as a mark beside another value."""
    return Badge(str(cell.value or cell.status), cell.tone, cell.link)


def found_of(results: pd.DataFrame) -> pd.DataFrame:
    """The newest result of each check, in the order of the tables."""
    return order.sort(speedup.newest(results[(results["phase"] == "check") | (results["source"] == "check")]))


def _verdict(rows: pd.DataFrame, page: str) -> Cell:
    link = f"{page}#{anchor(rows['function'].iloc[0], 'checks')}"
    commits = sorted({str(commit)[:8] for commit in rows["commit"] if commit})
    note = f"checked at {', '.join(commits)}" if commits else ""
    failed, passed = (rows["status"] == FAILED).sum(), (rows["status"] == OK).sum()
    if failed:
        return Cell(f"{failed} of {failed + passed} failed", note=note, tone="bad", link=link)
    if passed:
        return Cell(f"{passed} passed", note=note, tone="good", link=link)
    return Cell(status=UNAVAILABLE, reason=rows["reason"].iloc[0] or "no reason recorded", link=link)


def _warns(detail: Mapping[str, Any]) -> bool:
    found = detail.get("findings", ())
    return "suppressed" not in detail and any(each.get("severity") == WARNING for each in found)


def _counts(function: str, found: pd.DataFrame) -> Table:
    columns = (Column("Variant"), *(Column(title, "number") for title in ("Passed", "Failed", "n/a")), Column("Device"))
    rows = tuple(
        Row(
            (
                Cell(str(variant)),
                Cell(float((rows["status"] == OK).sum())),
                Cell(float(failed), tone="bad" if failed else ""),
                Cell(float((rows["status"] == UNAVAILABLE).sum())),
                Cell(str(device)),
            ),
            {"variant": str(variant), "device": str(device)},
        )
        for (variant, device), rows in found.groupby(["variant", "device"], sort=False)
        for failed in [(rows["status"] == FAILED).sum()]
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
    groups = ordered.groupby(["status", "variant", "device", "reason"], sort=False, dropna=False)
    untagged = ("phase", "dtype", "workload")
    made = tuple(Row(_reason_cells(group), order.tags(group.iloc[0].to_dict(), *untagged)) for _, group in groups)
    return Table(caption, columns, made, folded)


def _reason_cells(rows: pd.DataFrame) -> tuple[Cell, ...]:
    first, worst = rows.iloc[0], rows["value"].max()
    listed = ("metric", "workload", "dtype", "device")
    return (
        Cell(first["variant"]),
        Cell(first["status"], tone="bad" if first["status"] == FAILED else ""),
        Cell(first["reason"] or "no reason recorded"),
        missing("no number") if pd.isna(worst) else Cell(float(worst)),
        *(Cell(", ".join(order.names(name, rows[name])) or "none of its own") for name in listed),
    )
