"""Measuring: one metric a file; sampling and statistics apart from both. What a result is, records.py says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..records import Journal, Record
    from .benched import Benched
    from .run import Progress, Task
    from .selection import Known


def bench(
    what: Callable[..., Any] | Sequence[str] | None = None,
    make_inputs: Callable[..., Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    variants: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = ("float32",),
    devices: Sequence[str] = ("cpu",),
    phases: Sequence[str] | None = None,
    threads: int = 1,
    budget_s: float = 0.8,
    isolate: bool = True,
    allocator: str = "settled",
    dynamic: bool = False,
    ways: Sequence[str] | None = None,
) -> Benched:
    """Times and saved bytes of all variants side by side; `frame` of what comes back is that of `autofn.results`.

    what: a Function of yours, and then make_inputs gives its arguments and reference is what it is measured
    against, all in this process; or names of the registry's Functions. None means all; phases by default forward,
    backward and forward_backward. budget_s: seconds a variant and phase; a group ends earlier when all its ratios
    are known to 2 %. isolate: each variant in processes of its own, so that intervals and verdicts hold beyond one
    process; false samples in this process. allocator: "settled" or "stock". dynamic: compiled variants are compiled
    for any sizes instead of those of the case. ways: how a device's time is taken, by default in all ways that the
    device has. In a notebook a bar shows how far it is. Raises LookupError for unknown names, ValueError for too
    many threads, and for arguments that do not go together.
    """
    from .. import registry, results
    from ..records import Journal
    from . import machine, notebook, run, selection
    from .benched import Benched

    known: Known = registry
    if callable(what):
        known, isolate = _given(what, make_inputs, reference), False
        what = known.names()
    elif make_inputs or reference:
        raise ValueError("bench: make_inputs and reference go with a Function of your own, not with names")
    chosen = selection.tasks(what, variants=variants, workloads=workloads, dtypes=dtypes, devices=devices, known=known)
    with tempfile.TemporaryDirectory() as folder:
        conditions = {"source": "bench", "run": run.run_id(), "commit": machine.commit()}
        found = measure_tasks(
            chosen, selection.phases(phases), Journal(Path(folder) / "bench.jsonl"), conditions=conditions,
            threads=threads, budget_s=budget_s, isolate=isolate, allocator=allocator, dynamic=dynamic, ways=ways,
            known=known, progress=notebook.progress("bench"),
        )  # fmt: skip
        return Benched(results.frame(found))


def _given(function: Callable[..., Any], make_inputs: Any, reference: Any) -> Known:
    from ..given import One, spec_of

    if make_inputs is None or reference is None:
        raise ValueError(
            "bench: make_inputs and reference must be given with a Function of your own: what makes its arguments, and "
            "what it is measured against"
        )
    return One(spec_of(_called(function), function, make_inputs, reference))


def _called(function: Any) -> str:
    from ..given import name_of

    return name_of(getattr(function, "__qualname__", "") or type(function).__name__)


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
