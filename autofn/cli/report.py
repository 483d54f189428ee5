"""`autofn report`: pages from all results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Specs


def report_command(
    out: Annotated[Path, typer.Option(help="Folder for the pages.", metavar="DIR")] = Path("reports/html"),
    root: Annotated[Path, typer.Option(help="Folder whose results are shown.", metavar="DIR")] = Path("."),
    spec: Specs = None,
) -> None:
    """Build HTML pages from all results; each is one file that opens without a network."""
    from ..reporting import NoResultsError, report

    try:
        pages = report(root, out)
    except NoResultsError as error:
        typer.echo(error, err=True)
        raise typer.Exit(3) from error
    for page in pages:
        typer.echo(page)
