"""A result as plain data: one metric of one case in one phase, with everything that it was measured under."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

OK, FAILED, UNAVAILABLE = "ok", "failed", "n/a"
CEILING = "ceiling"


@dataclass(frozen=True)
class Key:
    """The identity of a case."""

    function: str
    variant: str
    workload: str
    dtype: str
    device: str

    def __str__(self) -> str:
        return f"{self.function}-{self.variant}-{self.workload}-{self.dtype}-{self.device}"


@dataclass(frozen=True)
class Record:
    """One measured value, or the reason why there is none.

    value, low, high: in `unit`; the median and the bounds of its 95 % interval. samples: the raw values behind it.
    status: "ok", "failed" (an error, or a finding) or "n/a" (cannot run here); reason says why where it is not "ok".
    detail: more plain data of the metric, such as the ledger of saved tensors.
    """

    function: str
    variant: str
    workload: str
    dtype: str
    device: str
    phase: str
    metric: str
    unit: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: tuple[float, ...] = ()
    number: int | None = None
    processes: int | None = None
    status: str = OK
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)
    # The conditions.
    source: str = ""
    run: str = ""
    machine: str = ""
    commit: str = ""
    date: str = ""
    version: str = ""
    protocol: str = ""
    threads: int | None = None
    device_model: str = ""
    driver: str = ""
    torch: str = ""
    allocator: str = ""
    cache: str = ""


# Where results lie, below the folder in which the commands run.
RUNS = Path(".autofn/runs")
ASV_RESULTS = Path(".asv/results")
ASV_JOURNAL = Path(".asv/journal")
# Cases that were measured a second time at one commit and machine: of them asv's own file holds the first.
ASV_AGAIN = Path(".asv/again")

COLUMNS = tuple(entry.name for entry in fields(Record))
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(COLUMNS, (str,)),
    **dict.fromkeys(("value", "low", "high", "number", "processes", "threads"), (int, float, type(None))),
    "samples": (tuple,),
    "detail": (dict,),
}
REQUIRED = COLUMNS[: COLUMNS.index("value")]


def is_ceiling(function: Any) -> Any:
    """Whether a row tells what the machine reaches and nothing of a Function; of its name, or of a column of names."""
    return function == CEILING


def to_line(record: Record) -> str:
    """The record as one line of JSON, without the optional fields that hold their default."""
    found = asdict(record).items()
    filled = {name: value for name, value in found if name in REQUIRED or value not in (None, "", (), {})}
    return json.dumps(filled, allow_nan=False)


def from_line(line: str) -> Record:
    """The record of a line. Raises ValueError for anything else; unknown fields of a later version are left out."""
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError(f"a record is a JSON object, got {type(found).__name__}")
    known = {name: value for name, value in found.items() if name in COLUMNS}
    if isinstance(known.get("samples"), list) and all(isinstance(n, (int, float)) for n in known["samples"]):
        known["samples"] = tuple(known["samples"])
    for name, value in known.items():
        if not isinstance(value, _KINDS[name]):
            raise ValueError(f"a record's {name} cannot be {value!r}")
    try:
        return Record(**known)
    except TypeError as error:
        raise ValueError(f"a record lacks fields: {error}") from error


class Journal:
    """A JSON-lines file to which each record is appended, and flushed to disk, the moment it is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.opened = False

    def append(self, records: Iterable[Record]) -> None:
        """Adds records, all of them at once; what is in the file stays even if the process is killed right after."""
        lines = "".join(to_line(record) + "\n" for record in records)
        if not self.opened:
            # Only who writes mends: a reader would cut in two what another is writing.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _complete_last_line(self.path)
            self.opened = True
        with self.path.open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> Iterator[Record]:
        """What is in the file. A line that a kill cut short is left out."""
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip():
                try:
                    yield from_line(line)
                except ValueError:
                    continue


def last_of_each(records: Iterable[Record]) -> list[Record]:
    """Without those that a run made again: a group that a kill cut short is measured anew as a whole."""
    said = (*REQUIRED, "machine", "commit", "run", "protocol", "cache")
    return list({tuple(getattr(record, name) for name in said): record for record in records}.values())


def _complete_last_line(path: Path) -> None:
    """Ends a line that a kill cut short, so that the next record starts on its own."""
    data = path.read_bytes() if path.exists() else b""
    if data and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes under a temporary name in the same folder, then moves into place; text as UTF-8."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
