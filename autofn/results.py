"""Every result, whatever made it, as one tidy pandas frame: one row a metric of a case in a phase.

Two kinds of files are read: asv's result files (what ran across commits), with the journals that hold the reasons and
the raw samples that asv does not keep; and one JSON-lines file a run of `autofn bench` or `autofn check`.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from .measure.protocols import way_of
from .records import (
    ASV_AGAIN,
    ASV_JOURNAL,
    ASV_RESULTS,
    COLUMNS,
    FAILED,
    OK,
    RUNS,
    UNAVAILABLE,
    Journal,
    Record,
    from_line,
    is_ceiling,
    last_of_each,
)

CASE = ["function", "variant", "workload", "dtype", "device"]
CONDITIONS = [
    "machine", "commit", "version", "protocol", "threads", "device_model", "driver", "torch", "allocator", "cache"
]  # fmt: skip


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
    rows: list[tuple[Record, Path]] = []
    if "asv" in sources:
        rows += _read_asv(root)
    if "runs" in sources:
        rows += _read_runs(root / RUNS)
    return frame((record for record, _ in rows), files=[str(path) for _, path in rows])


def frame(records: Iterable[Record], files: Sequence[str] | None = None) -> pd.DataFrame:
    """Records as a frame. Missing numbers are NaN, `date` is a UTC timestamp, `way` is the protocol's."""
    found = pd.DataFrame([asdict(record) for record in records], columns=list(COLUMNS))
    for column in ("value", "low", "high"):
        found[column] = pd.to_numeric(found[column]).astype("float64")
    for column in ("number", "processes", "threads"):
        found[column] = pd.to_numeric(found[column]).astype("Int64")
    found["date"] = pd.to_datetime(found["date"], utc=True, format="ISO8601", errors="coerce")
    found["way"] = found["protocol"].map(way_of)
    found["file"] = list(files) if files is not None else ""
    return found


def latest(found: pd.DataFrame) -> pd.DataFrame:
    """Of rows that say the same thing under the same conditions, the one measured last; undated ones come first.

    Ceilings are left out: those of one run say nothing of another's times.
    """
    dated = found[~is_ceiling(found["function"])].sort_values("date", kind="stable", na_position="first")
    return dated.drop_duplicates([*CASE, "phase", "metric", *CONDITIONS], keep="last").reset_index(drop=True)


def _skipped(path: Path, error: Exception) -> None:
    warnings.warn(DamagedFileWarning(f"{path}: skipped, not a result file of autofn or asv: {error}"), stacklevel=3)


def _read_runs(folder: Path) -> list[tuple[Record, Path]]:
    rows: list[tuple[Record, Path]] = []
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
        rows += [(record, path) for record in last_of_each(found)]
    return rows


def _read_asv(root: Path) -> list[tuple[Record, Path]]:
    journal: dict[tuple[str, ...], list[Record]] = {}
    for record in sorted(_journals(root / ASV_JOURNAL), key=lambda record: record.date):
        journal.setdefault(_identity(record), []).append(record)
    rows: list[tuple[Record, Path]] = []
    # What was measured again comes last: of rows of one date the last counts as the latest.
    for path in [path for folder in (ASV_RESULTS, ASV_AGAIN) for path in sorted((root / folder).glob("*/*.json"))]:
        if path.name == "machine.json":
            continue
        try:
            found = _with_journal(list(_asv_records(path)), journal)
            rows += [(record, path) for record in found if record.status != UNAVAILABLE or record.reason]
        # Whatever JSON another program wrote there: it may hold anything in any place.
        except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, SyntaxError, OSError) as error:
            _skipped(path, error)
    return rows


_JOURNAL_KEEPS = (
    "reason", "samples", "detail", "number", "processes", "run",
    "protocol", "threads", "torch", "driver", "allocator", "cache",
)  # fmt: skip


def _journals(folder: Path) -> Iterator[Record]:
    for path in sorted(folder.glob("*/*/*.jsonl")):
        try:
            yield from last_of_each(Journal(path).records())
        except OSError as error:
            _skipped(path, error)


def _identity(record: Record) -> tuple[str, ...]:
    case = tuple(getattr(record, column) for column in CASE)
    return (record.commit, *case, record.phase, record.metric)


def _with_journal(records: Sequence[Record], journal: Mapping[tuple[str, ...], Sequence[Record]]) -> list[Record]:
    """Adds what asv does not keep: the reason, the raw samples, the detail and the conditions.

    The records are those of one file. asv may know this machine by another name than the journal, but it hands a median
    on as it is: where the times of the file are those of a journal, the file is of that journal's machine.
    """
    fitting = [[known for known in journal.get(_identity(one), ()) if _fits(one, known)] for one in records]
    timed = [known for one, fits in zip(records, fitting, strict=True) if one.metric == "time_s" for known in fits]
    machines = {known.machine for known in timed if known.status == OK} | {one.machine for one in records}
    return [
        _joined(one, [known for known in fits if known.machine in machines])
        for one, fits in zip(records, fitting, strict=True)
    ]


def _fits(record: Record, known: Record) -> bool:
    """Whether a journal's record may be what asv was given: of samples it keeps the median."""
    if record.torch and known.torch.split("+")[0] != record.torch.split("+")[0]:
        return False
    if record.value is None or known.value is None:
        return record.value is known.value
    return math.isclose(record.value, median(known.samples) if known.samples else known.value, rel_tol=1e-9)


def _joined(record: Record, fits: Sequence[Record]) -> Record:
    """The record with what the last of the fitting ones adds."""
    if not fits:
        return record
    known = fits[-1]
    kept = {name: getattr(known, name) for name in _JOURNAL_KEEPS}
    if record.status == OK:
        # The interval is the journal's, over processes, and so is the value inside it.
        return replace(record, **kept, value=known.value, low=known.low, high=known.high)
    return replace(record, **kept, status=known.status if known.status != OK else record.status)


def _asv_records(path: Path) -> Iterator[Record]:
    """The records of one asv result file (its API version 2): https://asv.readthedocs.io/en/latest/dev.html"""
    data = json.loads(path.read_text())
    if not isinstance(data, dict) or data.get("version") != 2:
        raise ValueError('an asv result file has "version": 2')
    machine = data["params"]["machine"]
    common = {
        "source": "asv",
        "machine": machine,
        "commit": data["commit_hash"],
        "date": datetime.fromtimestamp(data["date"] / 1000, UTC).isoformat(),
        "torch": data.get("requirements", {}).get("torch", ""),
        "device_model": data["params"].get("cpu", ""),
    }
    for name, packed in data["results"].items():
        parts = name.split(".")
        if len(parts) == 3 and parts[0] in ("timing", "memory"):
            # asv cuts trailing columns that hold nothing.
            columns = dict(zip(data["result_columns"], packed, strict=False))
            yield from _benchmark_records(parts[1], parts[2], columns, common)


def _benchmark_records(function: str, metric: str, columns: dict[str, Any], common: dict[str, Any]) -> Iterator[Record]:
    cases = list(itertools.product(*columns["params"]))
    values = columns.get("result") or [None] * len(cases)
    lows = columns.get("stats_ci_99_a") or [None] * len(cases)
    highs = columns.get("stats_ci_99_b") or [None] * len(cases)
    timed = metric.endswith("_time")
    for case, value, low, high in zip(cases, values, lows, highs, strict=True):
        variant, workload, dtype, device = map(ast.literal_eval, case)
        missing = value is None or math.isnan(value)
        yield Record(
            function=function,
            variant=variant,
            workload=workload,
            dtype=dtype,
            device=device,
            phase=metric.removesuffix("_time") if timed else "forward",
            metric="time_s" if timed else metric,
            unit="s" if timed else "bytes",
            value=None if missing else value,
            # asv writes infinite bounds where it had too few samples for an interval.
            low=None if missing or low is None or math.isinf(low) else low,
            high=None if missing or high is None or math.isinf(high) else high,
            status=FAILED if value is None else UNAVAILABLE if missing else OK,
            reason="asv noted a failure and no reason" if value is None else "",
            version=columns.get("version") or "",
            **common,
        )
