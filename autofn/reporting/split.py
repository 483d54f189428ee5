"""A page that would be too large to open: each of its Functions becomes a page of its own."""

from __future__ import annotations

from dataclasses import replace

from .model import Cell, Column, Page, Plot, Row, Section, Table
from .page import blocks_of

MOST = 27_000
"""Cells, of about 65 bytes each: with the script and the plots a page of less than 3 MB."""


def by_function(page: Page, file: str) -> dict[str, Page]:
    """{file: page}: the page alone where it is small enough, else one without its Functions, and theirs.

    Those draw with one script beside them: in each of them it would be most of the file.
    """
    own = [section for section in page.sections if "function" in section.tags]
    if len(own) < 2 or sum(map(weight, page.sections)) <= MOST:
        return {file: page}
    stem = file.removesuffix(".html")
    files = {section.anchor: f"{stem}-{section.anchor}.html" for section in own}
    rows = tuple(Row((Cell(section.title, link=files[section.anchor]),), section.tags) for section in own)
    listed = Section(
        "Functions", "functions", (Table("Each Function has a page of its own", (Column("Function"),), rows),)
    )
    place = page.sections.index(own[0])
    rest = [section for section in page.sections if section not in own]
    overview = replace(page, sections=(*rest[:place], listed, *rest[place:]), moved=files, shares=True)
    return {file: overview} | {
        files[section.anchor]: replace(page, sections=(section,), shares=True) for section in own
    }


def weight(section: Section) -> int:
    """About how many cells it is worth; two points take as much as one cell."""
    found = 0
    for block in blocks_of(section):
        if isinstance(block, Table):
            found += len(block.rows) * len(block.columns)
        elif isinstance(block, Plot):
            found += sum(len(series.points) for series in block.series) // 2
    return found
