"""Of all Functions: the best variant per device, dtype and phase, what it keeps, its checks, and what changed."""

from __future__ import annotations

from .. import order, speedup
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, Tone, anchor, missing
from ..verdicts import Verdict, verdicts
from . import checks

CAPTION = (
    "The best variant: by the geometric mean of its speedups over the workloads, with that of their bounds below it. "
    "Green where all workloads that surely differ from 1 are faster. "
)


def section(inputs: Inputs) -> Section:
    """One row a verdict; empty where there is no speedup."""
    found = verdicts(inputs)
    if not found:
        return Section("Verdicts", "verdicts")
    marks = checks.verdicts(inputs)
    apart = [name for name in speedup.SHOWN_APART if len({getattr(each, name) for each in found}) > 1]
    rows = tuple(
        _row(each, marks.get((each.function, each.best, each.device), missing("not checked")), inputs, apart)
        for each in found
    )
    return Section("Verdicts", "verdicts", (Table(CAPTION + speedup.MEANING, _columns(inputs, apart), rows),))


def _columns(inputs: Inputs, apart: list[str]) -> tuple[Column, ...]:
    since = f"since {inputs.base[:8]}" if inputs.base else "in the commits measured"
    return (
        # Beside the name, for without it rows of one Function look alike.
        *map(Column, ("Function", *(speedup.SHOWN_APART[name] for name in apart), "Best")),
        Column("Speedup", "ratio", speedup.MEANING),
        Column("Saved", "bytes", "for the backward, over the workloads: what the saved-tensor hooks see"),
        Column("Saved by eager", "bytes", "the same of the baseline"),
        Column("Checks"),
        Column("Change", "ratio", f"of the best variant's time, {since}: the largest step, time after / time before"),
        *map(Column, ("Device", "dtype", "Phase")),
    )


def _row(each: Verdict, mark: Cell, inputs: Inputs, apart: list[str]) -> Row:
    tone: Tone = "" if not each.clear or each.best == speedup.BASELINE else "good" if each.speedup > 1 else "bad"
    saved = (each.saved_bytes, each.baseline_saved_bytes)
    cells = (
        Cell(each.function, link=f"{inputs.detail}#{anchor(each.function)}"),
        *(Cell(getattr(each, name)) for name in (*apart, "best")),
        Cell(each.speedup, each.low, each.high, tone=tone, link=f"{inputs.detail}#{anchor(each.function, 'variants')}"),
        *(missing("not measured of both") if value is None else Cell(value) for value in saved),
        mark,
        _change(each, inputs),
        *(Cell(getattr(each, name)) for name in ("device", "dtype", "phase")),
    )
    told = {name: getattr(each, name) for name in ("function", "device", "dtype", "phase", "machine")}
    return Row(cells, {"function": each.function, "variant": each.best, **order.tags(told)})


def _change(each: Verdict, inputs: Inputs) -> Cell:
    if each.change is not None:
        return Cell(each.change, tone="bad" if each.change > 1 else "good", link="#changes")
    if len(inputs.commits) < 2:
        return missing("results of one commit")
    return Cell("no step")
