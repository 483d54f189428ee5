"""`autofn dev`: right or wrong, faster or slower than the last commit, bytes; again at each save with --watch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ..comparing.changes import Change
    from ..comparing.develop import Loop, Turn

# How often --watch looks for a save, in seconds.
LOOK_S = 0.3


def dev_command(
    function: Annotated[str, typer.Argument(help="The Function that you are editing.")],
    base: Annotated[str, typer.Option("--base", metavar="REV", help="The revision to be faster than.")] = "HEAD",
    workload: Annotated[str, typer.Option("--workload", "-w", help="The sizes that are timed.")] = "small",
    watch: Annotated[bool, typer.Option("--watch", help="Again at each save, until Ctrl-C.")] = False,
) -> None:
    """Build what changed, check it, and time the working tree against the last commit.

    One look decides: a difference that matters is worth an `autofn compare`, which looks twice. Exit status 1 where a
    check fails or the working tree is slower.
    """
    from rich.console import Console

    from .. import registry
    from ..comparing import describe
    from ..comparing.builds import side
    from ..comparing.develop import Loop, changed_since
    from ..measure.processes import Processes
    from ..repository import top

    registry.spec(function)
    root = top(Path())
    console = Console()
    before = side(base, root, said=lambda text: console.print(text, highlight=False))
    with Processes() as processes:
        loop = Loop(function, before, root, workload, processes, lambda one: describe(one, [function], processes))
        worst = _turn(console, loop)
        while watch:
            saved = time.time()
            console.print(f"[dim]waiting for a save of {function}; Ctrl-C ends[/]")
            while not changed_since(root, function, saved):
                time.sleep(LOOK_S)
            console.clear()
            worst = _turn(console, loop)
    if worst:
        raise typer.Exit(worst)


def _turn(console: Console, loop: Loop) -> int:
    """One turn, told; the exit status that it deserves."""
    from rich.markup import escape

    from ..comparing.builds import BuildError
    from ..measure.processes import ArmError

    try:
        with console.status("") as status:
            turn = loop.turn(lambda step: status.update(f"{step} {loop.function}"))
    except (BuildError, ArmError) as error:
        console.print("[bold red]does not build[/]")
        console.print(escape(str(error)), highlight=False)
        return 3
    return _tell(console, loop, turn)


def _tell(console: Console, loop: Loop, turn: Turn) -> int:
    from rich.markup import escape

    from ..checks.checked import Checked
    from ..comparing.changes import WORSE
    from ..records import OK
    from .findings import print_problems

    checked = Checked(tuple(turn.checked))
    if checked.errors:
        console.print(f"[bold red]WRONG[/]  {len(checked.errors)} errors, {len(checked.warnings)} warnings")
    elif not any(record.status == OK for record in turn.checked):
        why = escape(next((record.reason for record in turn.checked), "no rule fits"))
        console.print(f"[bold yellow]not checked[/]  {why}", highlight=False)
    else:
        passed = sum(record.status == OK for record in turn.checked)
        console.print(f"[bold green]right[/]  {passed} checks passed, {len(checked.warnings)} warnings")
    print_problems(console, checked)
    _table(console, loop, turn)
    steps = ", ".join(f"{step} {seconds:.1f} s" for step, seconds in turn.seconds.items())
    console.print(f"[dim]{steps}; against {loop.base.title}, {loop.workload}[/]", highlight=False)
    return int(bool(checked.errors) or any(change.verdict in WORSE for change in turn.changes))


def _table(console: Console, loop: Loop, turn: Turn) -> None:
    """A row a variant: each phase's time now and its change, and the bytes that changed."""
    from rich.markup import escape
    from rich.table import Table

    from ..comparing.develop import PHASES

    changes = turn.changes
    if not changes:
        console.print(f"{loop.base.title} has no {loop.function}: nothing to be faster than", highlight=False)
        return
    table = Table("Variant", *PHASES, "bytes")
    for variant in dict.fromkeys(change.variant for change in changes):
        mine = [change for change in changes if change.variant == variant]
        times = {change.phase: change for change in mine if change.metric == "time_s"}
        cells = [_time(times[phase]) if phase in times else "n/a" for phase in PHASES]
        table.add_row(escape(variant), *cells, _bytes([change for change in mine if change.metric != "time_s"]))
    for variant in turn.untouched:
        table.add_row(escape(variant), *["[dim]code unchanged[/]"] * len(PHASES), "")
    console.print(table)


def _time(change: Change) -> str:
    from rich.markup import escape

    from ..comparing.changes import BETTER, WORSE
    from ..comparing.markdown import difference
    from ..reporting.units import quantity

    if not change.measured or change.head is None:
        return escape(f"{change.verdict}: {change.reason}")
    colour = "red" if change.verdict in WORSE else "green" if change.verdict in BETTER else "default"
    verdict = "?" if change.verdict == "cannot tell" else change.verdict
    return f"{quantity(change.head, 'seconds')}  [{colour}]{verdict}[/] {escape(difference(change))}"


def _bytes(changes: list[Change]) -> str:
    from ..comparing.changes import BETTER, WORSE
    from ..reporting.units import quantity

    told = []
    for change in changes:
        if change.verdict in (*WORSE, *BETTER) and change.base is not None and change.head is not None:
            colour = "red" if change.verdict in WORSE else "green"
            metric = change.metric.removesuffix("_bytes") + (
                "" if change.metric != "peak_bytes" else f" {change.phase}"
            )
            values = " -> ".join(quantity(value, "bytes") for value in (change.base, change.head))
            told.append(f"[{colour}]{metric} {values}[/]")
    return "\n".join(told) or "the same"
