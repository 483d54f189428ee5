"""What a page says, as plain data: pages of sections of tables, plots and text. Numbers keep their base unit here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..records import OK, UNAVAILABLE

Tags = Mapping[str, str]
"""What the page's filter goes by, such as {"variant": "cpp"}; keys are of FILTERS."""

FILTERS = ("function", "variant", "workload", "phase", "dtype", "device", "machine")

Kind = Literal["text", "code", "date", "seconds", "bytes", "ratio", "percent", "number"]
Tone = Literal["", "good", "bad"]


@dataclass(frozen=True)
class Badge:
    """A short verdict beside a value, linked to where it is explained."""

    text: str
    tone: Tone = ""
    link: str = ""


@dataclass(frozen=True)
class Cell:
    """A value in its column's unit, or the reason why there is none. low, high: the bounds of its interval.

    note: what a pointer over the cell shows. link: an anchor of the page, or a relative address.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    status: str = OK
    reason: str = ""
    note: str = ""
    tone: Tone = ""
    link: str = ""
    badge: Badge | None = None


@dataclass(frozen=True)
class Column:
    """A column of values of one kind. note: what they mean. tags: the filter hides the column where they differ."""

    title: str
    kind: Kind = "text"
    note: str = ""
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    cells: tuple[Cell, ...]
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """folded: the line behind which the table is hidden until it is asked for; "" for one that shows at once."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    folded: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(
                    f"{self.caption}: a row holds one cell a column, got {len(row.cells)} for {len(self.columns)}"
                )


@dataclass(frozen=True)
class Point:
    """x is the position's name, or a number where the plot's axis is one; y in the plot's unit, None where there is no
    value and `note` says why. faint: whether another point is better.
    """

    x: str | float
    y: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    tags: Tags = field(default_factory=dict)
    faint: bool = False


@dataclass(frozen=True)
class Mark:
    """A place on an axis of numbers, with what happens there."""

    x: float
    text: str


@dataclass(frozen=True)
class Series:
    """One line or one set of markers. look: the kind of variant, which decides the colour."""

    name: str
    look: str
    points: tuple[Point, ...]
    tags: Tags = field(default_factory=dict)


@dataclass(frozen=True)
class Plot:
    """Values on a log axis over named positions, or over numbers. lines: whether the positions follow each other, as
    commits do. x_kind: "number" for a log axis of numbers, "bytes" for a linear one; "" for `positions`.
    """

    title: str
    x_title: str
    y_title: str
    kind: Kind
    positions: tuple[str, ...]
    series: tuple[Series, ...]
    lines: bool = False
    tags: Tags = field(default_factory=dict)
    x_kind: Literal["", "number", "bytes"] = ""
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Text:
    """A paragraph, or text whose line breaks and spaces count. tone "bad" makes it a notice."""

    text: str
    preformatted: bool = False
    tone: Tone = ""


@dataclass(frozen=True)
class Formula:
    """An assignment in Python, drawn as mathematics."""

    text: str


Block = Table | Plot | Text | Formula


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it. One without blocks and parts is left out of the page.

    folded: the line behind which the blocks are hidden until they are asked for; "" for those that show at once.
    """

    title: str
    anchor: str
    blocks: tuple[Block, ...] = ()
    parts: tuple[Section, ...] = ()
    tags: Tags = field(default_factory=dict)
    folded: str = ""

    @property
    def empty(self) -> bool:
        return not self.blocks and all(part.empty for part in self.parts)


@dataclass(frozen=True)
class Page:
    """Sections in order. preset: what the filter shows at first; a name that the page lacks is ignored.

    moved: {anchor: file} of the sections that stand in files of their own, to which links to this page are led on.
    shares: whether the script that draws plots is a file beside the page, which others use too.
    """

    sections: tuple[Section, ...]
    preset: Tags = field(default_factory=dict)
    moved: Mapping[str, str] = field(default_factory=dict)
    shares: bool = False


def anchor(*words: str) -> str:
    """A name that can be linked to, such as "clipped_relu-checks". It never holds what the filter's state does."""
    return re.sub(r"[^\w.-]+", "-", "-".join(words)).strip("-") or "section"


def missing(reason: str) -> Cell:
    """The cell of a value that does not exist."""
    return Cell(status=UNAVAILABLE, reason=reason)


def several(values: Iterable[str]) -> bool:
    """Whether a column of these values would tell rows apart."""
    return len(set(values)) > 1
