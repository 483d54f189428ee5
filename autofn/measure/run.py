"""A run: groups one after the other, each journalled the moment it is complete, so that a killed run goes on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..records import Journal, Record, is_ceiling, last_of_each
from . import machine
from .protocols import LOCKSTEP, WALL
from .rows import Arm, Group, Rows

Progress = Callable[[int, int, str], None]
Ways = Callable[[Group], tuple[str, ...]]
Measure = Callable[["Task", Rows], Iterable[Record]]
"""Measures the arms of a task; the rows make their records."""


@dataclass(frozen=True)
class Task:
    """A group with its arms. version: of the inputs, `Spec.version`."""

    group: Group
    arms: tuple[Arm, ...]
    version: str


def check_threads(threads: int) -> None:
    """Raises ValueError for more threads than cores, which would measure the scheduler."""
    if not 1 <= threads <= machine.cores():
        raise ValueError(
            f"threads: must be between 1 and the {machine.cores()} cores of this machine, got {threads}; with more "
            "threads than cores an operation of 20 us waits milliseconds for its turn"
        )


def set_threads(threads: int) -> None:
    """Fixes the number of threads of this process. Raises ValueError as `check_threads`."""
    import torch

    check_threads(threads)
    torch.set_num_threads(threads)


def missing(
    tasks: Sequence[Task], phases: Sequence[str], done: Iterable[Record], ways: Ways = lambda group: (WALL,)
) -> list[Task]:
    """The tasks whose group has not all of its records among `done`."""
    there = {
        (Group(r.function, r.workload, r.dtype, r.device), r.variant, r.phase, r.metric, r.protocol, r.cache)
        for r in done
        if not is_ceiling(r.function)
    }
    count = Counter((group, variant) for group, variant, *_ in there)
    whole = {task.group: Rows(task.group, phases, ways=ways(task.group)).per_arm for task in tasks}
    return [task for task in tasks if any(count[task.group, arm.variant] < whole[task.group] for arm in task.arms)]


def execute(
    tasks: Sequence[Task],
    phases: Sequence[str],
    measure: Measure,
    journal: Journal,
    *,
    conditions: Callable[[Group], Mapping[str, Any]],
    ways: Ways = lambda group: (WALL,),
    protocols: Mapping[str, str] = LOCKSTEP,
    progress: Progress = lambda done, total, label: None,
) -> list[Record]:
    """Measures what the journal lacks and returns all of its records.

    Each group is appended at once when it is complete. conditions: fields of every record of a group, asked for when it
    starts. ways, protocols: as in `Rows`, the ways for each group. progress: called with groups done, groups in all,
    and the one that starts.
    """
    waiting = missing(tasks, phases, journal.records(), ways)
    for number, task in enumerate(waiting, start=len(tasks) - len(waiting)):
        progress(number, len(tasks), str(task.group))
        common = {**conditions(task.group), "version": task.version}
        rows = Rows(task.group, phases, common, ways(task.group), protocols)
        journal.append(measure(task, rows))
    progress(len(tasks), len(tasks), "")
    return last_of_each(journal.records())


def run_id() -> str:
    """A name for a run that no other run has."""
    return f"{os.getpid():x}-{os.urandom(4).hex()}"
