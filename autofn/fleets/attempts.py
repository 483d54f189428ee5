"""What has been tried of a cell, on disk the moment it is: an interrupted fleet waits for its jobs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..records import write_atomically

FILE = "attempts.json"


@dataclass(frozen=True)
class Attempt:
    """A job of an engine. reason: why it gave no results, "" while it runs."""

    engine: str
    job: str
    reason: str = ""


def read(folder: Path) -> list[Attempt]:
    """The attempts in a cell's folder, the oldest first; none where the file is damaged: then it is tried anew."""
    try:
        return [Attempt(**found) for found in json.loads((folder / FILE).read_text())]
    except (OSError, ValueError, TypeError):
        return []


def write(folder: Path, attempts: list[Attempt]) -> None:
    write_atomically(folder / FILE, json.dumps([asdict(attempt) for attempt in attempts]))
