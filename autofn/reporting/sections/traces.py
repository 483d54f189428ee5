"""The profiler's traces: where they lie and how to open them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...records import OK
from ..inputs import Inputs
from ..model import Block, Cell, Column, Row, Section, Table, Text, missing

COLUMNS = (
    Column("Function"),
    Column("Variant", note="`all` holds every variant in each step"),
    *map(Column, ("Workload", "dtype", "Device")),
    Column("Date", "date"),
    Column("Folder", "code"),
    Column("Kernels in one call", note="launches, by phase; on the CPU only compiled kernels have names"),
)
VIEW = "autofn trace --view --out"
MEANING = (
    "Recorded by torch.profiler, which itself makes a short call up to twice as long: a trace shows where time goes, "
    "never how long a call takes. All times in a trace are profiled times."
)


def section(inputs: Inputs) -> Section:
    """One row a trace, and the command that shows them; empty where there are none."""
    if not inputs.traces:
        return Section("Traces (profiled)", "traces")
    folders = sorted({Path(str(summary.get("folder", ""))).parent.parent for summary in inputs.traces})
    commands = "\n".join(f"{VIEW} {shlex.quote(str(folder))}" for folder in folders)
    rows = tuple(map(_row, inputs.traces))
    blocks: tuple[Block, ...] = (
        Text(MEANING),
        Text(commands, preformatted=True),
        Table("Traces, profiled", COLUMNS, rows),
    )
    return Section("Traces (profiled)", "traces", blocks)


def _row(summary: Mapping[str, Any]) -> Row:
    told = {name: str(summary.get(name, "")) for name in ("function", "variant", "workload", "dtype", "device")}
    kernels = [f"{phase}: {_launches(found)}" for phase, found in (summary.get("kernels") or {}).items()]
    status = summary.get("status", OK)
    folder = (
        Cell(str(summary.get("folder", ""))) if status == OK else Cell(status=status, reason=summary.get("reason", ""))
    )
    return Row(
        (
            *(Cell(value) for value in told.values()),
            Cell(str(summary.get("date", ""))[:16].replace("T", " "))
            if summary.get("date")
            else missing("not recorded"),
            folder,
            Cell("; ".join(kernels)) if kernels else missing("no named kernel was launched"),
        ),
        # "all" is no variant: the filter must not list it, and every choice of variants is in it.
        {name: value for name, value in told.items() if value and value != "all"},
    )


def _launches(kernels: Mapping[str, float]) -> str:
    return f"{sum(kernels.values()):g} of {len(kernels)} kernel{'s' if len(kernels) > 1 else ''}"
