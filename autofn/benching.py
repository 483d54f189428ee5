"""`autofn.bench`: Functions measured side by side, and a result that shows itself in a notebook."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measure.selection import Known
    from .reporting.benched import Benched


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
    from . import registry, results
    from .measure import machine, measure_tasks, run, selection
    from .records import Journal
    from .reporting import notebook
    from .reporting.benched import Benched

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
    from .given import One, spec_of

    if make_inputs is None or reference is None:
        raise ValueError(
            "bench: make_inputs and reference must be given with a Function of your own: what makes its arguments, and "
            "what it is measured against"
        )
    return One(spec_of(_called(function), function, make_inputs, reference))


def _called(function: Any) -> str:
    from .given import name_of

    return name_of(getattr(function, "__qualname__", "") or type(function).__name__)
