"""Of one Function: which rules its variants keep, and every finding and refusal with its reason."""

from __future__ import annotations

import pandas as pd

from ...records import FAILED, OK, UNAVAILABLE
from .. import order, speedup
from ..inputs import Inputs
from ..model import Badge, Block, Cell, Column, Row, Section, Table, anchor, missing


def section(inputs: Inputs) -> Section:
    """A table of rules by variants, then one of the cases that failed or could not be checked."""
    found = _found(inputs.results)
    if found.empty:
        return Section("Checks", "checks")
    function = found["function"].iloc[0]
    blocks: list[Block] = [_rules(function, found)]
    if (found["status"] != OK).any():
        blocks.append(_reasons(function, found[found["status"] != OK]))
    return Section("Checks", anchor(function, "checks"), tuple(blocks))


def verdicts(inputs: Inputs) -> dict[tuple[str, str], Cell]:
    """{(variant, device): how many checks of one Function passed, linked to the reasons}."""
    return {
        (str(variant), str(device)): _verdict(rows, inputs.detail)
        for (variant, device), rows in _found(inputs.results).groupby(["variant", "device"])
    }


def badge(cell: Cell) -> Badge:
    """A verdict as a mark beside another value."""
    return Badge(str(cell.value or cell.status), cell.tone, cell.link)


def _found(results: pd.DataFrame) -> pd.DataFrame:
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


def _rules(function: str, found: pd.DataFrame) -> Table:
    variants = order.names("variant", found["variant"])
    columns = (Column("Rule", "code"), *(Column(name, tags={"variant": name}) for name in variants))
    rows = tuple(
        Row((Cell(str(rule)), *(_rule(rows[rows["variant"] == name]) for name in variants)))
        for rule, rows in found.groupby("metric", sort=False)
    )
    return Table(f"{function}: rules by variants, over workloads and dtypes", columns, rows)


def _rule(rows: pd.DataFrame) -> Cell:
    if rows.empty:
        return missing("not checked")
    failed, passed = rows[rows["status"] == FAILED], rows[rows["status"] == OK]
    if len(failed):
        return Cell(f"{len(failed)} of {len(failed) + len(passed)} failed", tone="bad", note=failed["reason"].iloc[0])
    if passed.empty:
        return missing(rows["reason"].iloc[0] or "no reason recorded")
    worst = passed["value"].max()
    return Cell(f"{len(passed)} passed", tone="good", note="" if pd.isna(worst) else f"worst error {worst:.3g}")


def _reasons(function: str, rows: pd.DataFrame) -> Table:
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
    return Table(f"{function}: what failed, and what could not be checked", columns, made)


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
