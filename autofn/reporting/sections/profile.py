"""Of one Function: where the time of each variant goes, phase by phase, as the profiler saw it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...tracing.operators import compiled_kernel
from .. import order
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, Text, anchor
from ..units import quantity

TITLE = "Where the time goes (profiled)"
CASE = ["phase", "variant", "workload", "dtype", "device"]
PLACES = ("Most", "Second", "Third")
COLUMNS = (
    Column("Variant"),
    Column("Phase"),
    Column("Trace", note="the file, for Perfetto; `autofn trace --view` shows it in TensorBoard"),
    Column("Profiled time", "seconds", "of one call with the profiler inside it: no measurement"),
    Column("Slowdown", "ratio", "what a recorded step took over an unrecorded one"),
    Column(
        "Outside any kernel",
        "seconds",
        "Python, dispatch and autograd: profiled time less that of kernels, which on the CPU are compiled kernels and "
        "the operators that go through the elements of tensors",
    ),
    Column("Kernels launched", "number", "in one call"),
    *(Column(f"{place} own time", note="of an operator: without those called inside") for place in PLACES),
    *map(Column, ("Workload", "dtype", "Device")),
)
MEANING = (
    "Profiled times show where time goes, not how long a call takes: the profiler is inside every operator and every "
    "Python call. They are not to be compared with measured ones."
)


def section(inputs: Inputs) -> Section:
    """One row a variant and phase, the variants of a phase side by side; empty where there are no traces."""
    found = inputs.profile
    if found.empty:
        return Section(TITLE, "profile")
    groups: dict[tuple[str, ...], list[Mapping[Any, Any]]] = defaultdict(list)
    for row in found.to_dict("records"):
        groups[tuple(row[name] for name in CASE)].append(row)
    keys = sorted(groups, key=lambda key: (order.rank("phase", key[0]), order.variant_rank(key[1])))
    made = tuple(_row(dict(zip(CASE, key, strict=True)), groups[key], inputs.out) for key in keys)
    function = str(found["function"].iloc[0])
    table = Table(f"{function}: operators and kernels, profiled", COLUMNS, made)
    return Section(TITLE, anchor(function, "profile"), (Text(MEANING), table))


def _row(case: Mapping[str, str], rows: Sequence[Mapping[Any, Any]], out: str) -> Row:
    first = rows[0]
    label = f"{first['function']}/{case['variant']}/{case['phase']}"
    steps = first["steps"]
    whole = sum(row["total_time_s"] for row in rows if row["name"] == label) / steps
    outside = max(0.0, whole - sum(row["kernel_time_s"] for row in rows) / steps)
    return Row(
        (
            Cell(case["variant"]),
            Cell(case["phase"]),
            Cell("trace", link=os.path.relpath(Path(first["folder"]) / first["trace"], out)),
            Cell(whole),
            Cell(first["slowdown"]),
            Cell(outside, note=f"{outside / whole:.0%} of the profiled time"),
            Cell(sum(row["launches"] for row in rows) / steps),
            *_top([row for row in rows if row["name"] != label], whole, steps),
            *(Cell(case[name]) for name in ("workload", "dtype", "device")),
        ),
        # Not by phase: the page's filter shows one that traces do not have, the training step.
        {name: case[name] for name in ("variant", "workload", "dtype", "device")},
    )


def _top(rows: Sequence[Mapping[Any, Any]], whole: float, steps: int) -> list[Cell]:
    """The operators with the most time of their own, whatever the shapes of their inputs."""
    own: dict[str, float] = defaultdict(float)
    shapes: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        name = compiled_kernel(row["name"]) or row["name"]
        own[name] += row["self_time_s"] / steps
        shapes[name].append(row["input_shapes"])
    most = sorted(own, key=own.__getitem__, reverse=True)[: len(PLACES)]
    cells = [
        Cell(f"{name}: {quantity(own[name], 'seconds')}, {own[name] / whole:.0%}", note="\n".join(shapes[name]))
        for name in most
    ]
    return [*cells, *[Cell("none")] * (len(PLACES) - len(cells))]
