"""The commits that have results, the newest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ..history import DIRTY, Commit
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, missing

COLUMNS = (
    Column("Commit", "code"),
    Column("Subject"),
    Column("Date", "date", note="of the commit; of its first result where git does not know it; UTC"),
    Column("Results", "number"),
    Column("Of changed trees", "number", note="results of a working tree that differed from the commit"),
    Column("Sources"),
)


def section(inputs: Inputs) -> Section:
    """One row a commit."""
    found: dict[str, list[Counted]] = defaultdict(list)
    counts = inputs.results.groupby(["commit", "source"]).size().reset_index(name="results")
    for name, source, results in counts.itertuples(index=False, name=None):
        found[name.removesuffix(DIRTY)].append(Counted(source, results, name.endswith(DIRTY)))
    rows = tuple(_row(commit, found[commit.hash]) for commit in reversed(inputs.commits) if commit.hash in found)
    return Section("Commits", "commits", (Table("Commits measured, the newest first", COLUMNS, rows),) if rows else ())


class Counted(NamedTuple):
    """Results of one commit and source."""

    source: str
    results: int
    dirty: bool


def _row(commit: Commit, found: Sequence[Counted]) -> Row:
    subject = Cell(commit.subject) if commit.known else missing("git does not know this commit here")
    return Row(
        (
            Cell(commit.short, note=commit.hash) if commit.hash else missing("measured outside a git repository"),
            subject if commit.hash else missing("no commit"),
            Cell(commit.date.strftime("%Y-%m-%d %H:%M")) if commit.date == commit.date else missing("no date"),
            Cell(float(sum(each.results for each in found))),
            Cell(float(sum(each.results for each in found if each.dirty))),
            Cell(", ".join(sorted({each.source for each in found} - {""}))),
        )
    )
