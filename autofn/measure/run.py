"""A run: groups one after the other, each journalled the moment it is complete, so that a killed run goes on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..records import Journal, Record
from . import machine
from .group import MEMORY_METRICS, Arm, Group, Settings, measure_group

if TYPE_CHECKING:
    from ..spec import Spec

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Task:
    """A group with its Spec and its arms."""

    spec: Spec
    group: Group
    arms: tuple[Arm, ...]


def set_threads(threads: int) -> None:
    """Fixes the number of threads. Raises ValueError for more threads than cores, which would measure the scheduler."""
    import torch

    if not 1 <= threads <= machine.cores():
        raise ValueError(
            f"threads: must be between 1 and the {machine.cores()} cores of this machine, got {threads}; with more "
            "threads than cores an operation of 20 us waits milliseconds for its turn"
        )
    torch.set_num_threads(threads)


def missing(tasks: Sequence[Task], phases: Sequence[str], done: Iterable[Record]) -> list[Task]:
    """The tasks whose group has not all of its records among `done`."""
    count = Counter(Group(r.function, r.workload, r.dtype, r.device) for r in done)
    expected = len(MEMORY_METRICS) + len(phases)
    return [task for task in tasks if count[task.group] < expected * len(task.arms)]


def execute(
    tasks: Sequence[Task],
    settings: Settings,
    journal: Journal,
    *,
    threads: int = 1,
    conditions: Mapping[str, Any] | None = None,
    progress: Progress = lambda done, total, label: None,
) -> list[Record]:
    """Measures what the journal lacks and returns all of its records.

    Each group is appended at once when it is complete. `conditions` are fields of every record; the machine's own are
    added. `progress` is called with groups done, groups in all, and the one that starts. A process of its own is what
    the caller wants where an arm may crash.
    """
    set_threads(threads)
    done = list(journal.records())
    waiting = missing(tasks, settings.phases, done)
    for number, task in enumerate(waiting, start=len(tasks) - len(waiting)):
        progress(number, len(tasks), str(task.group))
        common = {
            **machine.conditions(task.group.device, threads),
            "version": task.spec.version,
            **(conditions or {}),
        }
        found = list(measure_group(task.spec, task.group, task.arms, replace(settings, common=common)))
        journal.append(found)
        done += found
    progress(len(tasks), len(tasks), "")
    return done


def settle_allocator(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker whose allocator keeps its pages and whose libraries use one thread."""
    return {**environment, "GLIBC_TUNABLES": machine.SETTLED_ALLOCATOR, "OMP_NUM_THREADS": "1"}


def run_id() -> str:
    """A name for a run that no other run has."""
    return f"{os.getpid():x}-{os.urandom(4).hex()}"
