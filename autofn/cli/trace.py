"""`autofn trace`: profiler traces for TensorBoard."""

from __future__ import annotations

import importlib.util
import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Device, Functions, Specs, Variants

if TYPE_CHECKING:
    from ..trace_files import TraceSummary


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
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="What TensorBoard is pointed at.")] = Path("traces"),
) -> None:
    """Record where the time goes: a profiler trace of each variant, labelled by phase, for TensorBoard."""
    from .. import trace
    from ..records import FAILED, OK
    from .progress import progress_bar

    with progress_bar("trace") as progress:
        found = trace(
            functions or None,
            variants=variant or None,
            workload=workload,
            dtype=dtype,
            device=device,
            steps=steps,
            stacks=stacks,
            out=out,
            progress=progress,
        )
    _print(found)
    counts = Counter(summary.status for summary in found)
    if counts[OK]:
        typer.echo(f"\nview: TORCH_PROFILER_START_METHOD=fork tensorboard --logdir {shlex.quote(str(out))}")
        if importlib.util.find_spec("torch_tb_profiler") is None:
            typer.echo("the viewer is not installed: pip install 'autofn[tensorboard]'")
    if counts[FAILED]:
        raise typer.Exit(1)
    if not counts[OK]:
        raise typer.Exit(3)


def _print(found: list[TraceSummary]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    # A path is there to be copied, so it folds rather than loses its end.
    table = Table("run", "", Column("folder, or why there is none", overflow="fold"), box=None, pad_edge=False)
    for summary in found:
        where = summary.folder or summary.reason.partition("\n")[0]
        table.add_row(f"{summary.function}/{summary.variant}", summary.status, Text(where))
    Console().print(table)
