"""What `autofn check` prints: records in, text out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ..checks.checked import Checked
    from ..checks.rule import Finding
    from ..records import Record

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
# A rule's infos about many variants are a line; about few each is told.
FEW = 3
# Infos on how a Function is to be timed, the same of every variant.
TIMING = "timing-"


def print_checked(checked: Checked) -> None:
    """A row a variant that was checked, then errors, warnings and infos, and what was not checked or does not count."""
    from rich.console import Console

    console = Console()
    _print_table(console, checked)
    print_problems(console, checked)
    _print_infos(console, checked)
    _print_rest(console, checked.records)
    ran = sum(record.status != "n/a" for record in checked.records)
    counts = f"{len(checked.errors)} errors, {len(checked.warnings)} warnings, {len(checked.infos)} infos"
    console.print(f"{ran} checks, {counts}", highlight=False)


def print_problems(console: Console, checked: Checked) -> None:
    """Errors, then warnings."""
    for severity in ("error", "warning"):
        _print_findings(console, checked, severity)


def _print_table(console: Console, checked: Checked) -> None:
    from rich.table import Table

    from ..checks.checked import by_case, findings_of
    from ..records import OK, UNAVAILABLE

    table = Table()
    for name in ("Function", "Variant", "Passed", "Errors", "Warnings", "Infos", "n/a", "Seconds"):
        table.add_column(name, overflow="fold")
    for (function, variant), records in by_case(checked.records):
        if all(record.status == UNAVAILABLE for record in records):
            continue
        found = [finding.severity for record in records for finding in findings_of(record)]
        errors, warnings, infos = (found.count(severity) for severity in STYLES)
        table.add_row(
            function, variant, str(sum(record.status == OK for record in records)),
            f"[bold red]{errors}[/]" if errors else "0", f"[yellow]{warnings}[/]" if warnings else "0", str(infos),
            str(sum(record.status == UNAVAILABLE for record in records)),
            f"{sum(record.detail.get('seconds', 0.0) for record in records):.1f}",
        )  # fmt: skip
    if table.row_count:
        console.print(table)


def _print_findings(console: Console, checked: Checked, severity: str) -> None:
    from ..checks.checked import findings_of

    for record in checked.records:
        for finding in findings_of(record):
            if finding.severity == severity:
                _print_finding(console, finding, f"{_who(record)}{_where(record)}")


def _print_finding(console: Console, finding: Finding, who: str) -> None:
    from rich.markup import escape

    style = STYLES[finding.severity]
    place = f"{escape(finding.where)}: " if finding.where else ""
    console.print(
        f"[{style}]{finding.severity}[/] {finding.rule}: {escape(who)}: {place}{escape(finding.message)}",
        highlight=False,
    )
    if finding.observed or finding.expected:
        console.print(f"    observed {escape(finding.observed)}, expected {escape(finding.expected)}", highlight=False)
    if finding.fix:
        console.print(f"    fix: {escape(finding.fix)}", highlight=False)


def _who(record: Record) -> str:
    """One of the registry has variants; somebody's own is what it is called."""
    return record.function if record.variant == "given" else f"{record.function} ({record.variant})"


def _where(record: Record) -> str:
    return f" in {record.dtype}" if record.workload == "given" else f" {record.workload} {record.dtype}"


def _print_infos(console: Console, checked: Checked) -> None:
    """Each info of a few variants; of many, which variants a rule has one for."""
    from rich.markup import escape

    from ..checks.checked import by_case, findings_of

    few = len(list(by_case(checked.records))) <= FEW
    told: dict[tuple[str, str], list[str]] = {}
    for record in checked.records:
        for finding in findings_of(record):
            if finding.severity == "info" and (few or not finding.rule.startswith(TIMING)):
                message = str(finding) if few else "see --json, or check one variant"
                told.setdefault((finding.rule, message), []).append(_who(record))
    for (rule, message), whom in told.items():
        console.print(f"[cyan]info[/] {rule}: {escape(_together(whom))}: {escape(message)}", highlight=False)


def _together(whom: list[str]) -> str:
    listed = list(dict.fromkeys(whom))
    return ", ".join(listed) if len(listed) <= FEW else f"{len(listed)} variants"


def _print_rest(console: Console, records: tuple[Record, ...]) -> None:
    """What could not be checked of a whole variant, and what was suppressed."""
    from rich.markup import escape

    from ..checks.checked import by_case
    from ..records import UNAVAILABLE

    lacking: dict[str, list[str]] = {}
    for _, mine in by_case(records):
        if all(record.status == UNAVAILABLE for record in mine):
            lacking.setdefault(mine[0].reason, []).append(_who(mine[0]))
    for reason, whom in lacking.items():
        console.print(f"n/a {escape(_together(whom))}: {escape(reason)}", highlight=False)
    for record in records:
        if "suppressed" in record.detail:
            who = _who(record)
            console.print(f"suppressed {record.metric}: {escape(who)}: {escape(record.reason)}", highlight=False)
