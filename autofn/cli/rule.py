"""`autofn rule`: what a rule of `autofn check` means, with a wrong Function and the right one."""

from __future__ import annotations

from typing import Annotated

import typer


def rule_command(
    rule: Annotated[
        str | None, typer.Argument(metavar="[RULE]", help="Its page; all rules in a line each without.")
    ] = None,
) -> None:
    """Explain a rule of check: a wrong Function, why it is wrong, the right one."""
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.table import Table

    from .. import checks
    from ..checks import pages

    console = Console()
    if rule:
        console.print(Markdown(pages.page(rule)))
        return
    table = Table("Rule", "Severity", "Level", "A correct Function")
    for each in checks.rules():
        table.add_row(each.id, each.severity, each.level, each.meaning)
    console.print(table)
