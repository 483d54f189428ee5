"""What came to take more or less from commit to commit, the largest loss first."""

from __future__ import annotations

from collections.abc import Mapping

from ...regressions import Step
from .. import order
from ..history import Commit
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, Text, missing

COLUMNS = (
    *map(Column, ("Function", "Variant", "Workload", "Phase", "Metric")),
    Column("Change", "ratio", "after / before, with its interval; of a time relative to eager of the same run"),
    Column("Noise floor", "percent", "what two arms of the baseline differ by in such a run; bytes are exact"),
    Column("Usual", "percent", "what this history does from commit to commit anyhow"),
    *map(Column, ("dtype", "Device", "Machine")),
    Column("Commit", "code"),
    Column("Subject"),
    Column("Before", "code", "the commit measured before it"),
)
MEANING = (
    "A step leaves both intervals, the noise floor and what the history does anyhow behind it, and the next commit "
    "does not take it back. Machines and conditions are never mixed. "
)


def section(inputs: Inputs) -> Section:
    """One row a step; a sentence where there are commits and no step, and nothing where there is one commit."""
    if len(inputs.commits) < 2:
        return Section("Changes", "changes")
    span = _span(inputs)
    if not inputs.changes:
        return Section("Changes", "changes", (Text(f"No step {span}."),))
    commits = {commit.hash: commit for commit in inputs.commits}
    rows = tuple(_row(step, commits) for step in inputs.changes)
    return Section("Changes", "changes", (Table(f"Steps {span}, the largest loss first. {MEANING}", COLUMNS, rows),))


def _span(inputs: Inputs) -> str:
    if inputs.head:
        return f"from {inputs.base[:8]} to {inputs.head[:8]}"
    return f"since {inputs.base[:8]}" if inputs.base else f"in {len(inputs.commits)} commits"


def _row(step: Step, commits: Mapping[str, Commit]) -> Row:
    after = commits[step.commit]
    cells = (
        *(Cell(getattr(step, name)) for name in ("function", "variant", "workload", "phase", "metric")),
        Cell(step.factor, *_bounds(step), tone="bad" if step.worse else "good"),
        Cell(step.floor) if step.metric == "time_s" else Cell("exact"),
        missing("too short a history") if step.usual is None else Cell(step.usual),
        *(Cell(getattr(step, name)) for name in ("dtype", "device", "machine")),
        Cell(after.short, note=after.hash),
        Cell(after.subject) if after.known else missing("git does not know this commit here"),
        Cell(step.before[:8], note=step.before),
    )
    names = ("function", "variant", "workload", "phase", "dtype", "device", "machine")
    tags = {name: getattr(step, name) for name in names}
    return Row(cells, {"function": step.function, **order.tags(tags)})


def _bounds(step: Step) -> tuple[float | None, float | None]:
    return (None, None) if step.low == step.high else (step.low, step.high)
