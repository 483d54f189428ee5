"""Where a run's records go on disk, and how an interrupted run is found again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..records import Journal, Record


@dataclass(frozen=True)
class Resumable:
    """A run that journals as it goes. The same command, given at the same commit, finds its unfinished journal."""

    kind: str
    run: str
    journal: Journal

    @property
    def done(self) -> list[Record]:
        return list(self.journal.records())

    def finish(self) -> Path:
        """Moves the journal to the name of a finished run, such as .autofn/runs/check-20261130T101500-1f2e.jsonl."""
        target = self.journal.path.with_name(f"{self.kind}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{self.run}.jsonl")
        os.replace(self.journal.path, target)
        return target


def resumable(kind: str, *asked: Any) -> Resumable:
    """The run of a command, new or interrupted. asked: all that makes two commands different, as plain data.

    A run that was interrupted before the package's code changed is not gone on with, committed or not.
    """
    from .. import registry
    from ..measure.run import run_id
    from ..records import RUNS, Journal

    digest = hashlib.sha256(json.dumps([registry.fingerprint(), *asked]).encode()).hexdigest()[:12]
    journal = Journal(RUNS / f"{kind}-{digest}.unfinished.jsonl")
    first = next(iter(journal.records()), None)
    return Resumable(kind, first.run if first else run_id(), journal)


def write_json(path: Path, records: Iterable[Record]) -> None:
    """The records as one JSON list."""
    from ..records import to_line, write_atomically

    text = json.dumps([json.loads(to_line(record)) for record in records], indent=1) + "\n"
    if path.exists() and not path.is_file():
        path.write_text(text)  # /dev/stdout, a pipe: there is nothing to replace
    else:
        write_atomically(path, text)
