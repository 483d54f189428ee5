"""`autofn trace`: profiler traces for TensorBoard, and TensorBoard on them."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Device, Functions, Specs, Variants

if TYPE_CHECKING:
    from ..tracing import TraceSummary


def trace_command(
    functions: Functions = None,
    spec: Specs = None,
    variant: Variants = None,
    workload: Annotated[str, typer.Option("--workload", "-w", help="The named set of sizes.")] = "small",
    dtype: Annotated[str, typer.Option("--dtype", help="Such as float32 or bfloat16.")] = "float32",
    device: Device = "cpu",
    steps: Annotated[int, typer.Option("--steps", help="Recorded steps, each one forward and one backward.")] = 3,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Python call stacks, and the Module view.")
    ] = True,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the traces lie.")] = Path("traces"),
    show: Annotated[
        bool, typer.Option("--view", help="TensorBoard on what lies there; records only Functions that are named.")
    ] = False,
    port: Annotated[int | None, typer.Option("--port", help="Of --view: 6006 or the next free one.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Of --view: every view without the internet.")] = False,
) -> None:
    """Record where the time goes: a profiler trace of each variant, labelled by phase, for TensorBoard."""
    if functions or not show:
        from .. import trace
        from .progress import progress_bar

        with progress_bar("trace") as progress:
            found = trace(
                functions or None, variants=variant or None, workload=workload, dtype=dtype, device=device, steps=steps,
                stacks=stacks, out=out, progress=progress,
            )  # fmt: skip
        _print(found)
        if not show:
            _end(found, out)
    if show:
        _view(out, port, offline)


def _view(out: Path, port: int | None, offline: bool) -> None:
    from ..viewing import NoViewerError, view

    try:
        view(out, port=port, offline=offline)
    except NoViewerError as error:
        typer.echo(f"autofn: {error}", err=True)
        raise typer.Exit(3) from error


def _end(found: list[TraceSummary], out: Path) -> None:
    from ..records import FAILED, OK

    counts = Counter(summary.status for summary in found)
    if counts[OK]:
        typer.echo(f"\nview: autofn trace --view --out {shlex.quote(str(out))}")
    if counts[FAILED]:
        raise typer.Exit(1)
    if not counts[OK]:
        raise typer.Exit(3)


def _print(found: list[TraceSummary]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from ..records import OK

    # A path is there to be copied, so it folds rather than loses its end.
    folder = Column("folder, or why there is none", overflow="fold")
    table = Table("run", "", Column("slowdown", justify="right"), folder, box=None, pad_edge=False)
    for summary in found:
        where = summary.folder or summary.reason.partition("\n")[0]
        slowdown = f"{summary.slowdown:g}x" if summary.status == OK else ""
        table.add_row(f"{summary.function}/{summary.variant}", summary.status, slowdown, Text(where))
    console = Console()
    console.print(table)
    console.print("slowdown: what a recorded step took over an unrecorded one; no time in a trace is a measurement")
