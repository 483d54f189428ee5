"""Of one Function: the raw samples behind the times of a training step, each as a dot, when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...records import OK
from .. import order, speedup
from ..inputs import Inputs
from ..model import Plot, Point, Section, Series, Text, anchor
from .times import told

STEP, DTYPE = "forward_backward", "float32"
MOST = 120


def section(inputs: Inputs) -> Section:
    """One plot a workload and device; of more than MOST samples every so manieth. Empty where none were kept."""
    rows = inputs.results
    chosen = rows[(rows["metric"] == "time_s") & (rows["phase"] == STEP) & (rows["dtype"] == DTYPE)]
    found = order.sort(speedup.newest(chosen[(chosen["status"] == OK) & chosen["samples"].map(bool)]))
    if found.empty:
        return Section("Samples", "samples")
    apart = speedup.apart(found)
    groups = order.groups(found, ["device", "workload", *apart]).values()
    text = Text(f"Of the {DTYPE} training step. `autofn results` has those of all phases and dtypes.")
    return Section(
        "Samples",
        anchor(str(found["function"].iloc[0]), "samples"),
        (text, *(_plot(rows, apart) for rows in groups)),
        folded="Raw samples as dots",
    )


def _plot(rows: Sequence[dict[Any, Any]], apart: list[str]) -> Plot:
    first = rows[0]
    series = tuple(_series(row["variant"], row["samples"]) for row in rows)
    return Plot(
        " · ".join([first["workload"], first["device"], *(told(name, first[name]) for name in apart)]),
        "variant",
        "time of a sample",
        "seconds",
        tuple(line.name for line in series),
        series,
        tags=order.tags(first, "variant", "phase", "dtype"),
    )


def _series(variant: str, samples: tuple[float, ...]) -> Series:
    step = -(-len(samples) // MOST)
    return Series(
        variant, order.kind(variant), tuple(Point(variant, sample) for sample in samples[::step] if sample > 0),
        {"variant": variant},
    )  # fmt: skip
