"""`autofn fleet`: commits, machines and devices, each combination measured by a job of its own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from .options import JsonFile

if TYPE_CHECKING:
    from ..fleets.run import Outcome


def fleet_command(
    revisions: Annotated[
        list[str] | None, typer.Argument(metavar="[REVISION]...", help="Commits and ranges (A..B); by default HEAD.")
    ] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="NAME[:OPTION=VALUE,...]",
            help="A kind, with options of sbatch; repeatable. By default this one.",
        ),
    ] = None,
    device: Annotated[list[str] | None, typer.Option("--device", help="cpu (default), cuda; repeatable.")] = None,
    function: Annotated[
        list[str] | None, typer.Option("--function", "-f", help="Only these Functions; repeatable.")
    ] = None,
    profile: Annotated[str, typer.Option("--profile", help="glance, quick, standard or full.")] = "standard",
    engine: Annotated[str, typer.Option("--engine", help="local, one job at a time, or slurm.")] = "local",
    minutes: Annotated[int, typer.Option("--minutes", help="What a job may take, at most.")] = 240,
    nodes: Annotated[int, typer.Option("--nodes", help="Nodes of Slurm at once, at most.")] = 32,
    again: Annotated[bool, typer.Option("--again", help="Also what is there already; both are kept.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure commits on machines and devices, each combination by a job of its own that has a node to itself.

    Results are merged into asv's files; a job that dies is tried once more, then it is a row with its reason. An
    interrupted fleet goes on with the same command. Exit status 1 where a job failed, 3 where nothing was measured.
    """
    from ..fleets import fleet
    from ..fleets.engine import EngineError
    from ..fleets.run import MEASURED, THERE
    from ..records import FAILED
    from .progress import progress_bar

    try:
        with progress_bar("fleet") as progress:
            found = fleet(
                revisions or ["HEAD"], machines=machine or (), devices=device or ("cpu",), functions=function or (),
                profile=profile, engine=engine, minutes=minutes, nodes=nodes, again=again, progress=progress,
                said=lambda text: typer.echo(text, err=True),
            )  # fmt: skip
    except EngineError as error:
        typer.echo(f"autofn: {error}", err=True)
        raise typer.Exit(3) from error
    if json_file:
        from ..records import write_atomically

        write_atomically(json_file, json.dumps([asdict(outcome) for outcome in found], indent=1) + "\n")
    _print(found)
    statuses = {outcome.status for outcome in found}
    if not statuses & {MEASURED, THERE}:
        raise typer.Exit(3)
    if FAILED in statuses:
        raise typer.Exit(1)


def _print(found: list[Outcome]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console()
    by_status = Counter(outcome.status for outcome in found)
    without = [outcome for outcome in found if outcome.reason]
    if without:
        table = Table("Commit", "Machine", "Device", "", Column("Reason", overflow="fold"))
        for outcome in without:
            cell = outcome.cell
            row = (cell.commit[:12], cell.machine.name, cell.device, outcome.status, outcome.reason)
            table.add_row(*map(escape, row))
        console.print(table)
    for outcome in found:
        if outcome.merged.repeated:
            console.print(f"{outcome.cell}: {outcome.merged.repeated} values had been measured before; both are kept")
    values = sum(outcome.merged.values for outcome in found)
    told = ", ".join(f"{count} {status}" for status, count in by_status.items())
    console.print(f"{len(found)} jobs: {told}; {values} values", highlight=False)
