"""The code of the documents, run: a Markdown page is a session, whose blocks of Python print what the page says.

The blocks ```python of a page run in order and share their names. What one prints must be the block ```text or
```mermaid that follows it at once, without one nothing; `...` there stands for anything. A block that raises prints the
exception's name and words. Blocks of other kinds, such as ```python wrong, are not run here: who needs one asks for it.

A how-to page is a session of a shell, in a folder of its own: see `play`.
"""

from __future__ import annotations

import doctest
import io
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MEASURED = "text measured"
OUTPUTS = ("text", "mermaid", MEASURED)
MATCHING = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FILE = re.compile(r'\w+ title="(.+)"')
# Where there is no terminal, a progress bar is a line a step; what is compiled once is told once.
PROGRESS = re.compile(r"^(?:\w+ \d+/\d+ .*|autofn: compiling .*)\n", re.MULTILINE)
PLAY_S = 600
# What differs from one measurement to the next: remarks on the machine, rows of what became faster or slower, commits,
# dates, figures with a decimal point or a unit that no byte has, and verdicts, counted or not; and how many rules are.
REMARKS = re.compile(
    r"^(?:unsteady .*|What is called faster .*|.* seemed .* did not hold|[│|].*[│|] (?:faster|slower) +[│|].*"
    # A row without frames, and the rest of a name that was too long for its column.
    r"|.*\] +(?:faster|slower) +\d.*(?:\n {9,}\S+ *$)?)\n",
    re.MULTILINE,
)
COMMITS = re.compile(r"\b(?:[0-9a-f]{8}(?:[0-9a-f]{4})?|\d{4}-\d\d-\d\d)\b")
FIGURES = re.compile(r"[±+-]?\d[\d,]*(?:\.\d+(?: ?(?:ns|µs|ms|s|%|x)(?!\w))?|(?: ?(?:ns|µs|ms|s|%|x)(?!\w)))")
# And which variants were chosen of those that are level.
CHOICES = re.compile(r"(?<= float32: )\w+(?:, from [\d,]+ elements on \w+)*")
VERDICTS = re.compile(r"(?<=#) +(?:faster|slower|same|\?)(?!\w)|\d+ (?:faster|slower|same|cannot tell)(?:, )?")
RULES = re.compile(r"(?:│ +\d+ +){5}(?=│)|\d+ (?=checks,)")
FRAMES = re.compile("[─-╿|-]+")


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
    """A block after its run. said: what the page says that it prints, in a block of the kind `told`."""

    block: Block
    said: str
    printed: str
    told: str = "text"

    @property
    def as_said(self) -> bool:
        said, printed = (each if self.told != MEASURED else unmeasured(each) for each in (self.said, self.printed))
        return doctest.OutputChecker().check_output(said, printed, MATCHING)


@dataclass(frozen=True)
class Session:
    """A page, run. names: what its code has defined."""

    played: tuple[Played, ...]
    names: dict[str, Any]

    def wrong(self, heading: str | None = None) -> list[str]:
        """What a section, or the whole page, prints and the page says otherwise, in words."""
        return [
            f"{each.block.text}\nsays\n{each.said}\nbut prints\n{each.printed}"
            for each in self.played
            if heading in (None, each.block.heading) and not each.as_said
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
    played = [
        Played(each, _said(text, found, place)[0], _printed(each, names, path))
        for place, each in enumerate(found)
        if each.kind == "python"
    ]
    return Session(tuple(played), names)


def play(path: Path, folder: Path, variables: Mapping[str, str]) -> Session:
    """A how-to page, played in a folder, which holds what the page has named files.

    A block with a title, such as ```python title="my_ops.py", is that file from there on. A block ```console is run by
    bash, one ```python is a program of its own; both print what the next block says. In a block ```text measured the
    figures are of one measurement: they, verdicts and the order of lines may differ; all else, such as bytes, may not.
    Raises ValueError for a block of another kind: whatever a page shows is run.
    """
    text = path.read_text()
    found = blocks(text)
    played = []
    for place, each in enumerate(found):
        title = FILE.fullmatch(each.kind)
        if title:
            (folder / title[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / title[1]).write_text(each.text)
        elif each.kind in ("console", "python"):
            words = ["bash", "-c", _typed(each.text)] if each.kind == "console" else [sys.executable, "-c", each.text]
            done = subprocess.run(
                words, cwd=folder, env=dict(variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=PLAY_S, check=False,
            )  # fmt: skip
            said, told = _said(text, found, place)
            played.append(Played(each, said, PROGRESS.sub("", done.stdout), told))
        elif each.kind not in OUTPUTS:
            raise ValueError(f"{path.name}: a block is a file, console, python or what is printed, got {each.kind!r}")
    return Session(tuple(played), {})


def unmeasured(text: str) -> str:
    """Text without what another measurement would say otherwise."""
    text = VERDICTS.sub("", FIGURES.sub("#", COMMITS.sub("#", RULES.sub("", REMARKS.sub("", CHOICES.sub("", text))))))
    lines = (" ".join(FRAMES.sub(" ", line).split()) for line in text.splitlines())
    return "\n".join(sorted(line for line in lines if line))


def _typed(text: str) -> str:
    """What a person types of a console's text: the lines after `$ `, and those that go on after a backslash."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and lines[-1].endswith("\\"):
            lines.append(line)
        elif line.startswith("$ "):
            lines.append(line.removeprefix("$ "))
        else:
            raise ValueError(f"a command begins with `$ `, got {line!r}")
    return "\n".join(lines)


def _said(text: str, found: list[Block], place: int) -> tuple[str, str]:
    """What a block is said to print by the block that follows it at once, and that one's kind."""
    after = found[place + 1] if place + 1 < len(found) else None
    if after is None or after.kind not in OUTPUTS or text[found[place].end : after.start].strip():
        return "", "text"
    return after.text, after.kind


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
