"""A cell that could not be measured as rows of the frame: each case that the suite would have, with the reason.

One file a cell; it goes once the cell is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import asv_axes
from ..asv_run import PROFILES
from ..records import RUNS, Record, to_line, write_atomically
from .cells import Cell, Suite


def path(root: Path, cell: Cell, suite: Suite) -> Path:
    return root / RUNS / f"fleet-{cell.folder(suite)}.jsonl"


def write(root: Path, cell: Cell, suite: Suite, status: str, reason: str) -> None:
    """Puts the cell's rows in place of those of an earlier failure."""
    said = {"status": status, "reason": reason, "date": datetime.now(UTC).isoformat(timespec="seconds")}
    lines = (to_line(record) for record in rows(cell, suite, said))
    write_atomically(path(root, cell, suite), "".join(f"{line}\n" for line in lines))


def forget(root: Path, cell: Cell, suite: Suite) -> None:
    path(root, cell, suite).unlink(missing_ok=True)


def rows(cell: Cell, suite: Suite, said: Mapping[str, Any]) -> Iterator[Record]:
    """The times that the working tree's suites would have taken; which variants the commit has nobody knows."""
    effort = PROFILES[suite.profile]
    for function in suite.functions or asv_axes.names():
        axes = itertools.product(asv_axes.written(function), effort["workloads"], effort["dtypes"], asv_axes.PHASES)
        for variant, workload, dtype, phase in axes:
            yield Record(
                function, variant, workload, dtype, cell.device, phase, "time_s", "s", source="asv",
                run=f"fleet-{cell.folder(suite)}", machine=cell.machine.name, commit=cell.commit,
                version=asv_axes.version(function), **said,
            )  # fmt: skip
