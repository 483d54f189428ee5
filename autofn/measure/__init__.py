"""Measuring: one metric a file; sampling and statistics apart from both. What a result is, records.py says."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def bench(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = ("float32",),
    devices: Sequence[str] = ("cpu",),
    phases: Sequence[str] | None = None,
    threads: int = 1,
    budget_s: float = 0.5,
) -> pd.DataFrame:
    """Times and saved bytes of all variants side by side in this process, as the tidy frame of `autofn.results`.

    None means all; phases by default forward, backward and forward_backward. budget_s: seconds of sampling a case and
    phase. The times of one group are taken in turn, so their ratios are paired; they come from one process, so their
    intervals say nothing of another process. Raises LookupError for unknown names, ValueError for too many threads.
    """
    from .. import results
    from ..records import Journal
    from . import machine, run, selection
    from .group import Settings

    chosen = selection.tasks(functions, variants=variants, workloads=workloads, dtypes=dtypes, devices=devices)
    settings = Settings(selection.phases(phases), budget_s)
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "bench.jsonl")
        conditions = {"source": "bench", "run": run.run_id(), "commit": machine.commit()}
        return results.frame(run.execute(chosen, settings, journal, threads=threads, conditions=conditions))
