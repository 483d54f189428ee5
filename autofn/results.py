"""Every result, whatever made it, as one tidy pandas frame: one row a metric of a case in a phase.

Two kinds of files are read: asv's result files (what ran across commits), with the journals that hold the reasons and
the raw samples that asv does not keep; and one JSON-lines file a run of `autofn bench` or `autofn check`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path

import pandas as pd

from . import asv_results
from .asv_results import Columns
from .measure.protocols import way_of
from .records import COLUMNS, RUNS, Record, from_line, is_ceiling, last_of_each

CASE = ["function", "variant", "workload", "dtype", "device"]
CONDITIONS = [
    "machine", "commit", "version", "protocol", "threads", "device_model", "driver", "torch", "allocator", "cache"
]  # fmt: skip
# Of the columns that are not text.
TYPES = (
    dict.fromkeys(("value", "low", "high"), "float64")
    | dict.fromkeys(("number", "processes", "threads"), "Int64")
    | dict.fromkeys(("samples", "detail"), "object")
)


class DamagedFileWarning(UserWarning):
    """A result file could not be read and was skipped."""


def load(root: str | Path = ".", *, sources: Sequence[str] = ("asv", "runs")) -> pd.DataFrame:
    """All results below `root`, one row a metric of a case in a phase, in the columns of `records.Record`.

    `date` is a UTC timestamp; `file` names where a row came from. A damaged or foreign file is skipped with a
    DamagedFileWarning that names it. The frame is empty, with its columns, where there are no results.

    asv writes NaN both for a case that was skipped and for one that was not asked for: only those for which the journal
    has a reason become n/a rows.
    """
    root = Path(root)
    parts: list[tuple[Path, Columns]] = []
    if "asv" in sources:
        parts += asv_results.read(root, _skipped)
    if "runs" in sources:
        parts += _read_runs(root / RUNS)
    columns = {name: list(chain.from_iterable(part[name] for _, part in parts)) for name in COLUMNS}
    return _table(columns, [str(path) for path, part in parts for _ in part["function"]])


def frame(records: Iterable[Record]) -> pd.DataFrame:
    """Records as a frame. Missing numbers are NaN, `date` is a UTC timestamp, `way` is the protocol's."""
    columns = _columns(records)
    return _table(columns, [""] * len(columns["function"]))


def _columns(records: Iterable[Record]) -> Columns:
    rows = list(map(attrgetter(*COLUMNS), records))
    return (
        dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in COLUMNS}
    )


def _table(columns: Columns, files: Sequence[str]) -> pd.DataFrame:
    typed: dict[str, pd.Series] = {
        name: pd.Series(values, dtype=TYPES.get(name, "str")) for name, values in columns.items()
    }
    typed["date"] = pd.to_datetime(typed["date"], utc=True, format="ISO8601", errors="coerce")
    found = pd.DataFrame(typed, columns=list(COLUMNS))
    ways = {protocol: way_of(protocol) for protocol in set(columns["protocol"])}
    found["way"] = pd.Series([ways[protocol] for protocol in columns["protocol"]], dtype="str")
    found["file"] = pd.Series(files, dtype="str")
    return found


def latest(found: pd.DataFrame) -> pd.DataFrame:
    """Of rows that say the same thing under the same conditions, the one measured last; undated ones come first.

    Ceilings are left out: those of one run say nothing of another's times.
    """
    dated = found[~is_ceiling(found["function"])].sort_values("date", kind="stable", na_position="first")
    return dated.drop_duplicates([*CASE, "phase", "metric", *CONDITIONS], keep="last").reset_index(drop=True)


def _skipped(path: Path, error: Exception) -> None:
    warnings.warn(DamagedFileWarning(f"{path}: skipped, not a result file of autofn or asv: {error}"), stacklevel=3)


def _read_runs(folder: Path) -> list[tuple[Path, Columns]]:
    parts: list[tuple[Path, Columns]] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError as error:
            _skipped(path, error)
            continue
        found = []
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    found.append(from_line(line))
            except ValueError as error:
                _skipped(path, ValueError(f"line {number}: {error}"))
        parts.append((path, _columns(last_of_each(found))))
    return parts
