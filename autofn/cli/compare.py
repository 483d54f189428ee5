"""`autofn compare`: two commits, or the working tree and a commit, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Device, Dtypes, JsonFile, Variants, Workloads

if TYPE_CHECKING:
    from ..comparing import Compared

FORMATS = ("table", "markdown")
FAIL_ON = ("slower", "more", "broken", "nothing")


def compare_command(
    base: Annotated[str, typer.Argument(help="A revision, or the path of a Python that has autofn installed.")],
    head: Annotated[str, typer.Argument(help="The same, or . for the working tree.")] = ".",
    functions: Annotated[
        list[str] | None, typer.Argument(metavar="[FUNCTION]...", help="By default those whose code differs.")
    ] = None,
    variant: Variants = None,
    workload: Workloads = None,
    dtype: Dtypes = None,
    device: Device = "cpu",
    phase: Annotated[list[str] | None, typer.Option("--phase", help="Only these phases; repeatable.")] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads of an operation.")] = 1,
    budget: Annotated[float, typer.Option("--budget", metavar="SECONDS", help="Of sampling, in all.")] = 300.0,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Also count instructions a call, inside Valgrind: minutes more.")
    ] = False,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="slower, more (bytes, instructions), broken, or nothing; repeatable."),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="table or markdown.")] = "table",
    json_file: JsonFile = None,
) -> None:
    """Is HEAD slower than BASE, or hungrier? Both are built, and their variants take their samples in turn.

    What looks different is measured a second time before it is told. Exit status 1 for a real regression (by default
    slower or broken), 3 where nothing could be measured.
    """
    from ..comparing import PHASES, compare
    from ..comparing.builds import BuildError
    from ..comparing.changes import worse
    from ..measure.processes import ArmError
    from .progress import progress_bar

    kinds = tuple(fail_on or ("slower", "broken"))
    _one_of("--format", [form], FORMATS)
    _one_of("--fail-on", kinds, FAIL_ON)
    try:
        with progress_bar("compare") as progress:
            found = compare(
                base, head, functions, variants=variant, workloads=workload, dtypes=dtype or ("float32",),
                device=device, phases=phase or PHASES, threads=threads, budget_s=budget, instructions=instructions,
                progress=progress, said=lambda text: typer.echo(text, err=True),
            )  # fmt: skip
    except (BuildError, ArmError) as error:
        typer.echo(f"autofn: compare: {error}", err=True)
        raise typer.Exit(3) from error
    if json_file:
        _write_json(json_file, found)
    _print(found, form)
    if worse(found.changes, kinds):
        raise typer.Exit(1)
    if found.changes and not any(change.measured for change in found.changes):
        raise typer.Exit(3)


def _one_of(option: str, given: list[str] | tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{option}: must be one of {', '.join(known)}, got {name!r}")


def _write_json(path: Path, found: Compared) -> None:
    from ..records import write_atomically

    said = {
        "base": {"name": found.base.name, "commit": found.base.commit},
        "head": {"name": found.head.name, "commit": found.head.commit},
        "changes": [change.to_dict() for change in found.changes],
        "left_out": found.left_out,
    }
    write_atomically(path, json.dumps(said, indent=1) + "\n")


def _print(found: Compared, form: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..comparing.changes import WORSE, better, worse
    from ..comparing.markdown import markdown, notes, row, summary

    if form == "markdown":
        typer.echo(markdown(found), nl=False)
        return
    console = Console()
    changed = worse(found.changes) + better(found.changes)
    if changed:
        table = Table("Case", "Phase", "", "Base", "Head", "Change")
        for change in changed:
            colour = "red" if change.verdict in WORSE else "green"
            case, phase, verdict, *rest = map(escape, row(change))
            table.add_row(case, phase, f"[{colour}]{verdict}[/]", *rest)
        console.print(table)
    for line in notes(found):
        console.print(escape(line), highlight=False)
    if not found.changes:
        console.print("nothing that a Function runs differs; name Functions to compare them anyway", highlight=False)
    console.print(escape(f"{found.base.title} -> {found.head.title}: {summary(found.changes)}"), highlight=False)
