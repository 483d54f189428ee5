"""`autofn results`: what has been measured, as a list of runs or as one tidy frame."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Functions

if TYPE_CHECKING:
    import pandas as pd


def results_command(
    functions: Functions = None,
    export: Annotated[str | None, typer.Option("--export", help="csv, json or parquet, a row a result.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to the terminal.")] = None,
    root: Annotated[Path, typer.Option(help="Folder whose results are shown.", metavar="DIR")] = Path("."),
) -> None:
    """List what was measured, run by run; or export every result in the columns of `autofn.results.load`.

    Exit status 3 where there are no results.
    """
    from .. import results

    with warnings.catch_warnings(record=True) as skipped:
        warnings.simplefilter("always", results.DamagedFileWarning)
        found = results.load(root)
    for warning in skipped:
        typer.echo(f"autofn: {warning.message}", err=True)
    if functions:
        found = found[found["function"].isin(functions)]
    if found.empty:
        of = f" of {', '.join(functions)}" if functions else ""
        typer.echo(f"autofn: results: there are none{of} below {root.resolve()}; `autofn bench` measures", err=True)
        raise typer.Exit(3)
    if export is None:
        _print_runs(found)
    else:
        _write(found, export, out)


def _write(found: pd.DataFrame, form: str, out: Path | None) -> None:
    from ..export import export
    from ..records import write_atomically

    if form == "parquet" and out is None:
        raise ValueError("results: parquet is no text for a terminal; name a file with --out")
    content = export(found, form)
    if out is None:
        sys.stdout.write(content.decode())
    else:
        write_atomically(out, content)
        typer.echo(f"{len(found):,} results: {out}", err=True)


def _print_runs(found: pd.DataFrame) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("Source", "Machine", "Commit", "Device", "Functions", "Results", "Failed", "Last")
    table.columns[-1].no_wrap = True
    # Commits by when they were last measured.
    groups = found.groupby(["source", "machine", "commit", "device"], sort=False, dropna=False)
    for key, rows in sorted(groups, key=lambda group: str(group[1]["date"].max())):
        source, machine, commit, device = (escape(str(each)) for each in key)
        date = rows["date"].max()
        counts = [rows["function"].nunique(), len(rows), int((rows["status"] == "failed").sum())]
        told = "" if date != date else f"{date:%Y-%m-%d}"
        table.add_row(source, machine, commit[:8] or "none", device, *(f"{count:,}" for count in counts), told)
    Console().print(table)
