"""`autofn report`: pages from all results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Specs


def report_command(
    out: Annotated[Path, typer.Option(help="Folder for the pages.", metavar="DIR")] = Path("reports/html"),
    root: Annotated[Path, typer.Option(help="Folder whose results are shown.", metavar="DIR")] = Path("."),
    base: Annotated[str, typer.Option("--base", metavar="REV", help="Tell changes since this commit.")] = "",
    head: Annotated[str, typer.Option("--head", metavar="REV", help="Until this one; by default the last.")] = "",
    form: Annotated[str, typer.Option("--format", help="html, or to the terminal markdown or json.")] = "html",
    publish: Annotated[
        str,
        typer.Option("--publish", metavar="COMMAND", help="Instead keep the raw results, which COMMAND made."),
    ] = "",
    spec: Specs = None,
) -> None:
    """Build HTML pages from all results; each is one file that opens without a network.

    With `--format markdown` or `--format json` verdicts and changes are printed instead: a comment for a pull request,
    or the schema of docs/reports.md. With `--publish "make report"` the raw results of the last commit that was
    measured, or of `--head`, are kept in reports/published instead, where `make site` makes pages of them.
    """
    from ..reporting import NoResultsError, published, read, report
    from ..reporting.text import FORMATS

    if form not in ("html", *FORMATS):
        raise ValueError(f"--format: must be one of html, {', '.join(FORMATS)}, got {form!r}")
    if publish and (base or form != "html"):
        raise ValueError("--publish: keeps all results of one commit; goes without --base and --format")
    try:
        if form != "html":
            typer.echo(FORMATS[form](read(root, base=base, head=head)), nl=False)
            return
        made = published.publish(root, publish, head=head) if publish else report(root, out, base=base, head=head)
    except NoResultsError as error:
        typer.echo(error, err=True)
        raise typer.Exit(3) from error
    for path in made:
        typer.echo(path)
