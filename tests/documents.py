"""The code of the documents, run: a Markdown page is a session, whose blocks of Python print what the page says.

The blocks ```python of a page run in order and share their names. What one prints must be the block ```text or
```mermaid that follows it at once, without one nothing; `...` there stands for anything. A block that raises prints the
exception's name and words. Blocks of other kinds, such as ```python wrong, are not run here: who needs one asks for it.
"""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUTS = ("text", "mermaid")
MATCHING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """The text between two fences. kind: what stands behind the first, such as "python"; heading: what it is under."""

    kind: str
    text: str
    heading: str
    start: int
    end: int


@dataclass(frozen=True)
class Played:
    """A block of Python after its run. said: what the page says that it prints."""

    block: Block
    said: str
    printed: str

    @property
    def as_said(self) -> bool:
        return doctest.OutputChecker().check_output(self.said, self.printed, MATCHING)


@dataclass(frozen=True)
class Session:
    """A page, run. names: what its code has defined."""

    played: tuple[Played, ...]
    names: dict[str, Any]

    def wrong(self, heading: str) -> list[str]:
        """What a section prints and the page says otherwise, in words."""
        return [
            f"{each.block.text}\nsays\n{each.said}\nbut prints\n{each.printed}"
            for each in self.played
            if each.block.heading == heading and not each.as_said
        ]


def blocks(text: str) -> list[Block]:
    """Every fenced block of a page that says what it holds."""
    return [
        Block(found[1], found[2], _heading(text[: found.start()]), found.start(), found.end())
        for found in FENCE.finditer(text)
    ]


def block(text: str, kind: str) -> str:
    """The only block of a kind. Raises ValueError where there is none, or more."""
    (found,) = [each.text for each in blocks(text) if each.kind == kind]
    return found


def headings(path: Path) -> list[str]:
    """The sections of a page that hold code to run."""
    return list(dict.fromkeys(each.heading for each in blocks(path.read_text()) if each.kind == "python"))


@cache
def run(path: Path) -> Session:
    """The page's session, run once a process."""
    text = path.read_text()
    names: dict[str, Any] = {"__name__": path.stem}
    found = blocks(text)
    played = []
    for place, each in enumerate(found):
        if each.kind != "python":
            continue
        after = found[place + 1] if place + 1 < len(found) else None
        follows = after is not None and after.kind in OUTPUTS and not text[each.end : after.start].strip()
        played.append(Played(each, after.text if after and follows else "", _printed(each, names, path)))
    return Session(tuple(played), names)


def _printed(block: Block, names: dict[str, Any], path: Path) -> str:
    into = io.StringIO()
    with redirect_stdout(into):
        try:
            exec(compile(block.text, str(path), "exec"), names)
        except Exception as error:  # a page shows what a mistake raises
            print(f"{type(error).__name__}: {error}")
    return into.getvalue()


def _heading(before: str) -> str:
    found = re.findall(r"^#+ (.+)$", FENCE.sub("", before), re.MULTILINE)
    return found[-1] if found else ""
