"""The commits that have results, the newest first."""

from __future__ import annotations

from ..history import DIRTY, Commit, clean
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
    names = clean(inputs.results["commit"])
    rows = tuple(_row(commit, inputs, names == commit.hash) for commit in reversed(inputs.commits))
    shown = tuple(row for row in rows if row.cells[3].value)
    return Section(
        "Commits", "commits", (Table("Commits measured, the newest first", COLUMNS, shown),) if shown else ()
    )


def _row(commit: Commit, inputs: Inputs, belongs: object) -> Row:
    rows = inputs.results[belongs]
    subject = Cell(commit.subject) if commit.known else missing("git does not know this commit here")
    return Row(
        (
            Cell(commit.short, note=commit.hash) if commit.hash else missing("measured outside a git repository"),
            subject if commit.hash else missing("no commit"),
            Cell(commit.date.strftime("%Y-%m-%d %H:%M")) if commit.date == commit.date else missing("no date"),
            Cell(float(len(rows))),
            Cell(float(rows["commit"].str.endswith(DIRTY).sum())),
            Cell(", ".join(sorted(set(rows["source"]) - {""}))),
        )
    )
