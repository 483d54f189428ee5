"""Measuring: one metric a file; sampling and statistics apart from both. What a result is, records.py says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..records import Journal, Record
    from .run import Progress, Task
    from .selection import Known


def measure_tasks(
    tasks: Sequence[Task],
    phases: Sequence[str],
    journal: Journal,
    *,
    conditions: Mapping[str, Any],
    threads: int = 1,
    budget_s: float = 0.8,
    isolate: bool = True,
    allocator: str = "settled",
    dynamic: bool = False,
    ways: Sequence[str] | None = None,
    known: Known | None = None,
    progress: Progress = lambda done, total, label: None,
) -> list[Record]:
    """What `bench` does with a journal: measures what it lacks, and returns all of its records.

    Among them is what the machine reaches, as rows of "ceiling": `records.is_ceiling` tells them apart.
    """
    from . import machine, run, selection
    from .protocols import IN_PROCESS, WALL

    run.check_threads(threads)
    if set(ways or ()) - {WALL} and not isolate:
        raise ValueError(f"ways: {', '.join(ways or ())} need processes of their own; leave out --quick, --no-isolate")
    if dynamic and not isolate:
        raise ValueError("dynamic: needs processes of their own; leave out --quick and --no-isolate")
    _measure_ceilings(tasks, threads, journal, conditions)

    def fields(group: Any) -> dict[str, Any]:
        own = machine.conditions(group.device, threads)
        if isolate and group.device == "cpu":
            own["allocator"] = allocator
        return {**own, **conditions}

    if not isolate:
        return run.execute(
            tasks, phases, _in_this_process(threads, budget_s, known), journal, conditions=fields, protocols=IN_PROCESS,
            progress=progress,
        )  # fmt: skip
    from . import isolated
    from .lockstep import Effort
    from .processes import Build, Processes

    environment = (("AUTOFN_DYNAMIC", "1"),) if dynamic else ()
    build = Build(threads=threads, allocator=allocator, environment=environment)
    with Processes() as processes:
        return run.execute(
            tasks,
            phases,
            lambda task, rows: isolated.measure(
                processes, build, rows, task.arms, Effort(budget_s * len(task.arms) * len(phases) * len(rows.ways))
            ),
            journal,
            conditions=fields,
            ways=lambda group: selection.ways(ways, group.device),
            progress=progress,
        )


def _measure_ceilings(tasks: Sequence[Task], threads: int, journal: Journal, conditions: Mapping[str, Any]) -> None:
    """What the machine reaches on the devices and in the dtypes of the tasks, where the journal lacks it."""
    from ..records import is_ceiling
    from . import ceilings

    there = {(record.device, record.dtype) for record in journal.records() if is_ceiling(record.function)}
    asked = dict.fromkeys((task.group.device, task.group.dtype) for task in tasks)
    for device in dict.fromkeys(device for device, _ in asked):
        lacking = [dtype for of, dtype in asked if of == device and (of, dtype) not in there]
        if lacking:
            journal.append([replace(found, **conditions) for found in ceilings.measure(threads, lacking, device)])


def _in_this_process(threads: int, budget_s: float, known: Known | None) -> Any:
    from .. import registry
    from . import inprocess, run

    run.set_threads(threads)
    known = known or registry

    def measure(task: Task, rows: Any) -> Any:
        def load(variant: str) -> Any:
            return known.load(task.group.function, variant, task.group.device)

        return inprocess.measure(known.spec(task.group.function), rows, task.arms, load, budget_s)

    return measure
