"""A page as one HTML file: style, script and data are inside, and plotly too but where pages share it as a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from ..records import OK
from .formula import mathml
from .model import FILTERS, Block, Cell, Column, Mark, Page, Plot, Point, Section, Series, Table, Tags
from .units import interval, quantity

ASSETS = Path(__file__).parent / "assets"
PLOTLY = "plotly-basic.min.js"
SCRIPTS = ("common", "filter", "tables", "plots", "theme", "start")


@dataclass(frozen=True)
class Link:
    """A page of the report, for the navigation."""

    file: str
    title: str
    intro: str


@dataclass(frozen=True)
class Shown:
    """A cell as text. sort: the number that a column of numbers is sorted by."""

    text: str
    below: str
    sort: str


def render(page: Page, own: Link, links: Sequence[Link]) -> str:
    """The HTML of a page. All text is escaped; nothing is fetched when it opens."""
    blocks = [block for section in page.sections for block in blocks_of(section)]
    plots = [block for block in blocks if isinstance(block, Plot)]
    return _template().render(
        page=page,
        own=own,
        links=links,
        filters=_filters(page, blocks),
        numbers={id(plot): number for number, plot in enumerate(plots)},
        css=Markup(_asset("page.css")),
        script=Markup(_script()),
        plotly=Markup(plotly() if plots and not page.shares else ""),
        shared=PLOTLY if plots and page.shares else "",
        data=Markup(as_json(_data(page, plots))),
    )


def _data(page: Page, plots: Sequence[Plot]) -> dict[str, Any]:
    return {"plots": [_without_empty(plot) for plot in plots], "preset": dict(page.preset), "moved": dict(page.moved)}


def as_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def show(cell: Cell, column: Column) -> Shown:
    """The cell as text: the value in a unit that suits it with its interval below, or n/a with the reason below."""
    if cell.status != OK:
        return Shown(cell.status, cell.reason, "")
    if isinstance(cell.value, str) or cell.value is None:
        return Shown(cell.value or "", "", "")
    if column.kind in ("text", "code", "date"):
        raise ValueError(f"{column.title}: a column of kind {column.kind} holds text, got {cell.value!r}")
    below = ""
    if cell.low is not None and cell.high is not None:
        below = interval(cell.value, cell.low, cell.high, column.kind)
    return Shown(quantity(cell.value, column.kind), below, f"{cell.value:.6g}")


def prose(text: str) -> Markup:
    """Escaped text in which `backticks` mark code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def runs(blocks: Sequence[Block]) -> list[tuple[str, list[Block]]]:
    """Neighbours of one kind together, so that plots can stand side by side."""
    return [(kind.__name__, list(found)) for kind, found in groupby(blocks, type)]


def blocks_of(section: Section) -> Iterator[Block]:
    """The blocks of a section and of its parts."""
    yield from section.blocks
    for part in section.parts:
        yield from blocks_of(part)


def _filters(page: Page, blocks: Sequence[Block]) -> list[str]:
    """The tags of which the page has several values: only these can be filtered by, so only these are written out."""
    found: dict[str, set[str]] = {name: set() for name in FILTERS}
    for tags in _all_tags(page, blocks):
        for name, value in tags.items():
            found[name].add(value)
    return [name for name, values in found.items() if len(values) > 1]


def _all_tags(page: Page, blocks: Sequence[Block]) -> Iterator[Tags]:
    yield from (section.tags for section in page.sections)
    for block in blocks:
        if isinstance(block, Table):
            yield from (column.tags for column in block.columns)
            yield from (row.tags for row in block.rows)
        elif isinstance(block, Plot):
            yield block.tags
            yield from (series.tags for series in block.series)
            yield from (point.tags for series in block.series for point in series.points)


def _without_empty(value: Any) -> Any:
    """A plot as plain data without what is empty; the script takes what is absent for empty."""
    if isinstance(value, Plot | Series | Point | Mark):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: _without_empty(found) for key, found in value.items() if not _is_empty(found)}
    if isinstance(value, list | tuple):
        return [_without_empty(found) for found in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _is_empty(value: Any) -> bool:
    """Zero is a value."""
    return value is None or value is False or value in ("", {}, ())


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"show": show, "runs": runs, "id": id}
    environment.filters |= {"prose": prose, "mathml": mathml}
    return environment.get_template("page.html")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


@cache
def plotly() -> str:
    """The bundle of plotly.js for lines, markers and bars: a quarter of the whole (npm plotly.js-basic-dist-min)."""
    return _asset(PLOTLY)
