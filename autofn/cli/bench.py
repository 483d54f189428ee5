"""`autofn bench`: times and saved bytes of all variants, side by side, in processes of their own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Dtypes, Inputs, JsonFile, OrYours, Reference, Specs, Variants, Workloads

if TYPE_CHECKING:
    import pandas as pd

DTYPES = ("float32",)
TABLE = ["function", "workload", "dtype"]
# Above these the machine was doing something else: a tenth of a core, and three times the floor of a quiet machine.
BUSY_CORES, UNSTEADY_FLOOR = 0.1, 0.015
VERDICT_MARKS = {
    "faster": " [green]faster[/]",
    "slower": " [red]slower[/]",
    "same": " same",
    "cannot tell": " [yellow]?[/]",
}


def bench_command(
    functions: OrYours = None,
    inputs: Inputs = None,
    reference: Reference = None,
    spec: Specs = None,
    variant: Variants = None,
    workload: Workloads = None,
    dtype: Dtypes = None,
    device: Device = "cpu",
    phase: Annotated[list[str] | None, typer.Option("--phase", help="Only these phases; repeatable.")] = None,
    threads: Annotated[int, typer.Option("--threads", help="Threads of an operation.")] = 1,
    budget: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", help="Time a variant and phase, at most.")
    ] = 0.8,
    quick: Annotated[bool, typer.Option("--quick", help="In one process, a tenth of the budget: no verdicts.")] = False,
    isolate: Annotated[bool, typer.Option(help="A process of its own for each variant, or this one.")] = True,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Compile for any sizes, not for the case's.")] = False,
    allocator: Annotated[str, typer.Option("--allocator", help="settled (keeps freed pages) or stock.")] = "settled",
    way: Annotated[
        list[str] | None,
        typer.Option("--way", help="wall, events-warm, events-cold, graph; repeatable. All that the device has."),
    ] = None,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Also count instructions a call, inside Valgrind: a minute more.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Time forward, backward and forward_backward of all variants side by side, and count their saved bytes.

    The variants of one Function take their samples in turn, each in processes of its own. An interrupted run goes on
    with the same command. Exit status 1 for a variant that failed, and for a promise of its Spec that is broken.
    """
    from .. import given, measure, results, sources, speedups
    from ..measure import machine, run, selection
    from ..measure.instructions import count_tasks
    from ..records import FAILED, OK
    from .progress import progress_bar
    from .save import resumable, write_json

    if not budget > 0:
        raise ValueError(f"--budget: must be above 0 seconds, got {budget}")
    if allocator not in ("settled", "stock"):
        raise ValueError(f"--allocator: must be settled or stock, got {allocator!r}")
    run.check_threads(threads)
    functions = given.functions(functions, inputs, reference)
    tasks = selection.tasks(functions, variants=variant, workloads=workload, dtypes=dtype or DTYPES, devices=[device])
    phases, ways = selection.phases(phase), selection.ways(way, device) if isolate and not quick else way
    effort: dict[str, Any] = {
        "threads": threads,
        "budget_s": budget / 10 if quick else budget,
        "isolate": isolate and not quick,
        "allocator": allocator,
        "dynamic": dynamic,
        "ways": ways,
    }
    commit = machine.commit()
    asked: list[Any] = [(str(task.group), [arm.variant for arm in task.arms]) for task in tasks]
    if inputs:
        asked.append(sources.fingerprint())
    saving = resumable("bench", commit, asked, phases, effort, *(["instructions"] if instructions else []))
    conditions = {"source": "bench", "run": saving.run, "commit": commit}
    with progress_bar("bench") as progress:
        found = measure.measure_tasks(tasks, phases, saving.journal, conditions=conditions, progress=progress, **effort)
    if instructions:
        with progress_bar("instructions") as progress:
            found = count_tasks(
                tasks, phases, saving.journal, conditions=conditions, allocator=allocator, progress=progress
            )
    saving.finish()
    frame = results.frame(found)
    times = speedups.add_speedups(frame)
    _print(times, frame)
    broken = _print_promises(frame)
    if json_file:
        write_json(json_file, found)
    if broken or (times["status"] == FAILED).any():
        raise typer.Exit(1)
    if not (times["status"] == OK).any():
        raise typer.Exit(3)


def _print(times: pd.DataFrame, everything: pd.DataFrame) -> None:
    import pandas as pd
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..measure.protocols import WALL
    from ..records import OK
    from ..reporting.units import quantity

    console = Console()
    new = everything[everything["metric"] == "saved_new_bytes"]
    saved = new.set_index([*TABLE, "variant"])["value"].to_dict()
    counts = everything[everything["metric"] == "instructions"]
    for (function, workload, dtype, way), group in times.groupby([*TABLE, "way"], sort=False):
        phases = list(dict.fromkeys(group["phase"]))
        columns = ["Variant", *phases, "new saved bytes"]
        if len(counts):
            columns.append(f"instructions: {' / '.join(phases)}")
        title = f"{function} {workload} {dtype}" + (f" {way}" if way != WALL else "")
        table = Table(*columns, title=title, title_justify="left")
        for variant, rows in group.groupby("variant", sort=False):
            by_phase = {row.phase: row for row in rows.itertuples()}
            cells = [_time_cell(by_phase[phase]) if phase in by_phase else "n/a" for phase in phases]
            new_bytes = saved.get((function, workload, dtype, variant))
            cells.append("n/a" if pd.isna(new_bytes) else quantity(new_bytes, "bytes"))
            if len(counts):
                said = {"function": function, "workload": workload, "dtype": dtype, "variant": variant}
                cells.append(_instructions(counts[(counts[list(said)] == list(said.values())).all(axis=1)], phases))
            table.add_row(str(variant), *cells)
        console.print(table)
    for row in times[times["status"] != OK].drop_duplicates(["function", "variant", "way", "reason"]).itertuples():
        console.print(f"{row.function} ({row.variant}) {row.status}: {escape(str(row.reason))}", highlight=False)
    for warning in _warnings(times):
        console.print(f"[yellow]{escape(warning)}[/]", highlight=False)
    for reason, rows in counts[counts["status"] != OK].groupby("reason", sort=False):
        of = ", ".join(dict.fromkeys(rows["variant"]))
        console.print(f"instructions ({of}) {rows['status'].iloc[0]}: {escape(str(reason))}", highlight=False)
    console.print(_meaning(times), highlight=False)


def _print_promises(everything: pd.DataFrame) -> bool:
    """Those that are broken, and those that this run cannot judge; whether any is broken."""
    from rich.console import Console
    from rich.markup import escape

    from ..kept import BROKEN, CANNOT_TELL, judged

    console = Console()
    found = judged(everything)
    for verdict, style in ((BROKEN, "bold red"), (CANNOT_TELL, "yellow")):
        for each in found:
            if each.verdict == verdict:
                console.print(f"[{style}]{escape(str(each))}[/]", highlight=False)
    return any(each.verdict == BROKEN for each in found)


def _warnings(times: pd.DataFrame) -> list[str]:
    """What makes these numbers worth less, once each."""
    found = []
    busy = [detail.get("others_busy", 0) for detail in times["detail"]]
    if busy and max(busy) > BUSY_CORES:
        found.append(f"unsteady machine: other processes kept up to {max(busy):.1f} cores busy")
    floor = times["floor"].max()
    if floor > UNSTEADY_FLOOR:
        found.append(f"unsteady machine: two arms of eager may differ by up to {math.expm1(2 * floor):.0%} in this run")
    throttled = times[[bool(detail.get("throttled")) for detail in times["detail"]]]
    if len(throttled):
        causes = sorted({cause for detail in throttled["detail"] for cause in detail["throttle"]})
        share = sum(len(detail["throttled"]) for detail in throttled["detail"]) / sum(map(len, times["samples"]))
        found.append(f"unsteady device: {share:.0%} of the samples were taken while throttled by {', '.join(causes)}")
    slow = times[[bool(detail.get("denormal_inputs")) for detail in times["detail"]]]
    for function, workload in dict.fromkeys(zip(slow["function"], slow["workload"], strict=True)):
        found.append(f"{function} {workload}: inputs hold denormal numbers, on which arithmetic may be much slower")
    return found


def _meaning(times: pd.DataFrame) -> str:
    """What the numbers of the tables are."""
    if (times["processes"] > 1).any():
        return (
            "Centres over interpreters; ± half the 95 % interval; x is the speedup over eager, paired by round. A "
            "verdict stands where the interval lies beyond half of what two arms of eager may differ by; ? is: "
            "cannot tell."
        )
    return (
        "Medians; ± half the 95 % interval; x is the speedup over eager, paired by round. All samples come from one "
        "process: ratios of that process, no verdicts."
    )


def _time_cell(row: Any) -> str:
    import pandas as pd

    from ..records import OK
    from ..reporting.units import quantity

    if row.status != OK:
        return str(row.status)
    spread = "" if pd.isna(row.low) else f" ±{50 * (row.high - row.low) / row.value:.1f}%"
    speedup = "" if pd.isna(row.speedup) else f"  {row.speedup:.2f}x"
    return f"{quantity(row.value, 'seconds')}{spread}{speedup}{VERDICT_MARKS.get(row.verdict, '')}"


def _instructions(rows: pd.DataFrame, phases: list[str]) -> str:
    """Counts in the order of the phases, such as "272,688 / 1,223,809"."""
    from ..records import OK

    by_phase = {row.phase: f"{row.value:,.0f}" if row.status == OK else str(row.status) for row in rows.itertuples()}
    return " / ".join(by_phase.get(phase, "n/a") for phase in phases)
