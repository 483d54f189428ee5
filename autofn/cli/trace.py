"""`autofn trace`: profiler traces for TensorBoard, TensorBoard on them, and two of them compared."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Inputs, OrYours, Reference, Specs, Variants

if TYPE_CHECKING:
    from ..tracing import TraceSummary
    from ..tracing.difference import Pair, Side


def trace_command(
    functions: OrYours = None,
    inputs: Inputs = None,
    reference: Reference = None,
    spec: Specs = None,
    variant: Variants = None,
    workload: Annotated[str, typer.Option("--workload", "-w", help="The named set of sizes.")] = "small",
    dtype: Annotated[str, typer.Option("--dtype", help="Such as float32 or bfloat16.")] = "float32",
    device: Device = "cpu",
    steps: Annotated[int, typer.Option("--steps", help="Recorded steps, each one forward and one backward.")] = 3,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Python call stacks, and the Module view.")
    ] = True,
    flame: Annotated[bool, typer.Option("--flame", help="Also a flame graph a run, for speedscope.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory-snapshot", help="Also a snapshot of CUDA's allocator a run.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only Functions that were not recorded so from the code as it is.")
    ] = False,
    commit: Annotated[
        str | None, typer.Option("--commit", metavar="REV", help="Trace that commit's build, into a folder of its own.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the traces lie.")] = Path("traces"),
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Record nothing: what differs between two variants or folders."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--view", help="TensorBoard on what lies there; records only Functions that are named.")
    ] = False,
    port: Annotated[int | None, typer.Option("--port", help="Of --view: by default 6006 or the next free one.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Of --view: every view without the internet.")] = False,
) -> None:
    """Record where the time goes: a profiler trace of each variant, labelled by phase, for TensorBoard."""
    if (offline or port is not None) and not show:
        raise ValueError("trace: --port and --offline say how to --view, which is not given")
    if compare:
        _compare(*compare, functions, out)
        return
    if functions or not show:
        from .. import given

        found = _record(
            commit, functions=given.functions(functions, inputs, reference), variants=variant or None,
            workload=given.WORKLOAD if inputs else workload, dtype=dtype,
            device=device, steps=steps, stacks=stacks, flame=flame, memory=memory, missing=missing, out=out,
        )  # fmt: skip
        if not show:
            _end(found, out, commit)
    if show:
        _view(out, port, offline)


def _record(commit: str | None, **asked: Any) -> list[TraceSummary]:
    from .. import trace
    from ..comparing.builds import BuildError
    from ..tracing.commits import LostError
    from .progress import progress_bar

    try:
        with progress_bar("trace") as progress:
            found = trace(**asked, revision=commit, progress=progress, said=lambda text: typer.echo(text, err=True))
    except (BuildError, LostError) as error:
        typer.echo(f"autofn: {error}", err=True)
        raise typer.Exit(3) from error
    _print(found)
    return found


def _view(out: Path, port: int | None, offline: bool) -> None:
    from ..viewing import NoViewerError, view

    try:
        view(out, port=port, offline=offline)
    except NoViewerError as error:
        typer.echo(f"autofn: {error}", err=True)
        raise typer.Exit(3) from error


def _end(found: list[TraceSummary], out: Path, commit: str | None) -> None:
    from ..records import FAILED, OK

    counts = Counter(summary.status for summary in found)
    if counts[OK]:
        there = shlex.quote(str(out))
        typer.echo(f"\nview: autofn trace --view --out {there}")
        if commit:
            folder = next(Path(summary.folder).parents[1] for summary in found if summary.status == OK)
            typer.echo(f"compare with what lies in {there}: autofn trace --compare {shlex.quote(str(folder))} {there}")
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


def _compare(before: str, after: str, functions: list[str] | None, out: Path) -> None:
    from .. import registry
    from ..tracing.difference import compare_traces

    names = functions or [name for name in registry.every_name() if (out / name).is_dir()]
    if not names:
        raise LookupError(f"compare: there are no traces in {out}; autofn trace records them")
    for pair in compare_traces(before, after, names, out):
        _print_pair(pair)


def _print_pair(pair: Pair) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from ..tracing.difference import ADDED, SLOWER

    console = Console()
    console.print(escape(f"{pair.function}: {pair.before} -> {pair.after}"), highlight=False)
    if not pair.differences:
        console.print("no operator differs", highlight=False)
        return
    columns = ("phase", "operator", "input shapes", "", "calls", "own time (profiled), of a step")
    table = Table(*(Column(title, overflow="fold") for title in columns), box=None, pad_edge=False)
    for each in pair.differences:
        colour = "red" if each.what in (ADDED, SLOWER) else "green"
        calls = f"{each.before.calls:g} -> {each.after.calls:g}"
        times = f"{_time(each.before)} -> {_time(each.after)}"
        named = map(escape, (each.phase, each.name, each.input_shapes))
        table.add_row(*named, f"[{colour}]{each.what}[/]", calls, times)
    console.print(table)
    console.print("slower: the least of a step is above the most of the other side; to decide, measure: autofn bench\n")


def _time(side: Side) -> str:
    from ..reporting.units import quantity

    return quantity(side.time_s, "seconds") if side.calls else "none"
