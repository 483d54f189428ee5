"""The report for a pull request and for programs: verdicts and changes as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import pandas as pd

from ..comparing.markdown import escape
from . import front
from .inputs import Inputs
from .model import Cell, Row, Section, Table, Text
from .page import show
from .sections import changes as changes_section
from .sections import checks
from .sections import verdicts as verdicts_section
from .verdicts import verdicts

SCHEMA = 1
MOST_CHANGES = 50


def as_markdown(inputs: Inputs) -> str:
    """A comment for a pull request: changes, then the verdicts on the training step. Text from outside is escaped."""
    titled = ("### autofn report", *_about(inputs))
    changed = _section(changes_section.section(inputs), MOST_CHANGES)
    shown = inputs.only(_preset(inputs.results))
    return "\n".join([*titled, "", *changed, *_section(verdicts_section.section(shown))])


def as_json(inputs: Inputs) -> str:
    """The same of all phases and dtypes, in the schema that docs/reports.md describes."""
    found = verdicts(inputs)
    marks = checks.verdicts(inputs)
    told = {
        "schema": SCHEMA,
        "base": inputs.base,
        "head": inputs.head,
        "commits": [{"hash": commit.hash, "subject": commit.subject} for commit in inputs.commits],
        "verdicts": [
            asdict(each) | {"checks": _mark(marks.get((each.function, each.best, each.device)))} for each in found
        ],
        "changes": [asdict(step) | {"worse": step.worse} for step in inputs.changes],
        "skipped": list(inputs.skipped),
    }
    return json.dumps(told, indent=1, allow_nan=False) + "\n"


FORMATS = {"markdown": as_markdown, "json": as_json}


def _mark(cell: Cell | None) -> str:
    return "not checked" if cell is None else str(cell.value or cell.status)


def _about(inputs: Inputs) -> Iterable[str]:
    machines = sorted(set(inputs.results["machine"]) - {""})
    yield ""
    where = ", ".join(machines) or "no machine"
    yield escape(f"{len(inputs.results):,} results of {len(inputs.commits)} commits on {where}.")
    for message in inputs.skipped:
        yield escape(message)


def _preset(results: pd.DataFrame) -> pd.DataFrame:
    """What the front page shows at first, where there is such a time, with all that is no time."""
    times = results["metric"] == "time_s"
    for name, value in front.PRESET.items():
        chosen = times & (results[name] == value)
        times = chosen if chosen.any() else times
    return results[times | (results["metric"] != "time_s")]


def _section(section: Section, most: int | None = None) -> list[str]:
    """The section's tables and sentences; of a long table the first rows, and how many more there are."""
    lines: list[str] = []
    for block in section.blocks:
        if isinstance(block, Table):
            lines += [*_table(block, block.rows[:most]), ""]
            if most is not None and len(block.rows) > most:
                lines += [f"and {len(block.rows) - most} more.", ""]
        elif isinstance(block, Text):
            lines += [escape(block.text), ""]
    return lines


def _table(table: Table, rows: Sequence[Row]) -> Iterable[str]:
    yield f"| {' | '.join(escape(column.title) for column in table.columns)} |"
    yield f"|{'|'.join('---' for _ in table.columns)}|"
    for row in rows:
        cells = (show(cell, column) for cell, column in zip(row.cells, table.columns, strict=True))
        yield f"| {' | '.join(escape(f'{cell.text} ({cell.below})' if cell.below else cell.text) for cell in cells)} |"
