"""asv's result files, with what the journals know beside them, as columns: a million results load in seconds.

The format is asv's API version 2: https://asv.readthedocs.io/en/latest/dev.html
"""

from __future__ import annotations

import ast
import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from .records import (
    ASV_AGAIN,
    ASV_JOURNAL,
    ASV_RESULTS,
    COLUMNS,
    FAILED,
    OK,
    UNAVAILABLE,
    Journal,
    Record,
    last_of_each,
)

Columns = dict[str, list[Any]]
Journals = Mapping[str, Mapping[tuple[str, ...], Sequence[Record]]]
Skipped = Callable[[Path, Exception], None]

IDENTITY = ("function", "variant", "workload", "dtype", "device", "phase", "metric")
DEFAULTS = {field.name: field.default for field in fields(Record)} | {"detail": {}}
JOURNAL_KEEPS = (
    "reason", "samples", "detail", "number", "processes", "run",
    "protocol", "threads", "torch", "driver", "allocator", "cache",
)  # fmt: skip


def read(root: Path, skipped: Skipped) -> Iterator[tuple[Path, Columns]]:
    """The columns of each result file below `root`; `skipped` is told of each that cannot be read.

    asv writes NaN both for a case that was skipped and for one that was not asked for: only those for which a journal
    has a reason are there, as n/a.
    """
    journals = _journals(root / ASV_JOURNAL, skipped)
    # What was measured again comes last: of rows of one date the last counts as the latest.
    for path in [path for folder in (ASV_RESULTS, ASV_AGAIN) for path in sorted((root / folder).glob("*/*.json"))]:
        if path.name == "machine.json":
            continue
        try:
            found = _columns(json.loads(path.read_text()))
            _add_journal(found, journals)
            yield path, _told(found)
        # Whatever JSON another program wrote there: it may hold anything in any place.
        except (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, SyntaxError, OSError) as error:
            skipped(path, error)


def _columns(data: Any) -> Columns:
    if not isinstance(data, dict) or data.get("version") != 2:
        raise ValueError('an asv result file has "version": 2')
    found: Columns = {name: [] for name in COLUMNS}
    for name, packed in data["results"].items():
        parts = name.split(".")
        if len(parts) == 3 and parts[0] in ("timing", "memory"):
            # asv cuts trailing columns that hold nothing.
            _extend(found, parts[1], parts[2], dict(zip(data["result_columns"], packed, strict=False)))
    common = {
        "source": "asv",
        "machine": data["params"]["machine"],
        "commit": data["commit_hash"],
        "date": datetime.fromtimestamp(data["date"] / 1000, UTC).isoformat(),
        "torch": data.get("requirements", {}).get("torch", ""),
        "device_model": data["params"].get("cpu", ""),
    }
    count = len(found["function"])
    missing = {name: DEFAULTS[name] for name in COLUMNS if not found[name] and name not in common}
    return found | {name: [value] * count for name, value in (common | missing).items()}


def _extend(found: Columns, function: str, benchmark: str, packed: Mapping[str, Any]) -> None:
    """Adds the cases of one benchmark."""
    cases = _cases(tuple(map(tuple, packed["params"])))
    count = len(cases[0])
    values = packed.get("result") or [None] * count
    if len(values) != count:
        raise ValueError(f"{benchmark} of {function} has {count} cases, got {len(values)} values")
    missing = [value is None or math.isnan(value) for value in values]
    timed = benchmark.endswith("_time")
    same = {
        "function": function,
        "phase": benchmark.removesuffix("_time") if timed else "forward",
        "metric": "time_s" if timed else benchmark,
        "unit": "s" if timed else "bytes",
        "version": packed.get("version") or "",
    }
    columns: dict[str, Iterable[Any]] = dict(zip(("variant", "workload", "dtype", "device"), cases, strict=True)) | {
        "value": [None if none else value for value, none in zip(values, missing, strict=True)],
        "low": _bounds(packed.get("stats_ci_99_a"), missing),
        "high": _bounds(packed.get("stats_ci_99_b"), missing),
        "status": [
            FAILED if value is None else UNAVAILABLE if none else OK
            for value, none in zip(values, missing, strict=True)
        ],
        "reason": ["asv noted a failure and no reason" if value is None else "" for value in values],
    }
    for name, column in columns.items():
        found[name] += column
    for name, value in same.items():
        found[name] += [value] * count


@cache
def _cases(axes: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Variants, workloads, dtypes and devices, one of each a case; asv writes each as Python would."""
    variants, workloads, dtypes, devices = zip(
        *itertools.product(*([ast.literal_eval(text) for text in axis] for axis in axes)), strict=True
    )
    return variants, workloads, dtypes, devices


def _bounds(bounds: Sequence[float | None] | None, missing: Sequence[bool]) -> list[float | None]:
    """asv writes infinite bounds where it had too few samples for an interval."""
    if not bounds:
        return [None] * len(missing)
    return [
        None if none or bound is None or math.isinf(bound) else bound
        for bound, none in zip(bounds, missing, strict=True)
    ]


def _told(found: Columns) -> Columns:
    """Without what nobody asked for."""
    kept = [status != UNAVAILABLE or bool(why) for status, why in zip(found["status"], found["reason"], strict=True)]
    if all(kept):
        return found
    return {name: list(itertools.compress(column, kept)) for name, column in found.items()}


def _journals(folder: Path, skipped: Skipped) -> Journals:
    """{commit: {case, phase and metric: its records by date}}."""
    records: list[Record] = []
    for path in sorted(folder.glob("*/*/*.jsonl")):
        try:
            records += last_of_each(Journal(path).records())
        except OSError as error:
            skipped(path, error)
    found: dict[str, dict[tuple[str, ...], list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.date):
        key = tuple(getattr(record, name) for name in IDENTITY)
        found.setdefault(record.commit, {}).setdefault(key, []).append(record)
    return found


def _add_journal(found: Columns, journals: Journals) -> None:
    """Adds what asv does not keep: the reason, the raw samples, the detail and the conditions.

    The columns are those of one file. asv may know this machine by another name than the journal, but it hands a median
    on as it is: where the times of the file are those of a journal, the file is of that journal's machine.
    """
    known = journals.get(found["commit"][0] if found["commit"] else "", {})
    if not known:
        return
    keys = zip(*(found[name] for name in IDENTITY), strict=True)
    fitting = {row: _fitting(found, row, known[key]) for row, key in enumerate(keys) if key in known}
    timed = itertools.chain.from_iterable(fits for row, fits in fitting.items() if found["metric"][row] == "time_s")
    machines = {record.machine for record in timed if record.status == OK} | {found["machine"][0]}
    for row, fits in fitting.items():
        for record in [record for record in fits if record.machine in machines][-1:]:
            _join(found, row, record)


def _fitting(found: Columns, row: int, records: Iterable[Record]) -> list[Record]:
    """Those that may be what asv was given: of samples it keeps the median."""
    torch, value = (found[name][row] for name in ("torch", "value"))
    return [known for known in records if _same_torch(torch, known.torch) and _same_value(value, known)]


def _same_torch(torch: str, known: str) -> bool:
    return not torch or known.split("+")[0] == torch.split("+")[0]


def _same_value(value: float | None, known: Record) -> bool:
    if value is None or known.value is None:
        return value is known.value
    return math.isclose(value, median(known.samples) if known.samples else known.value, rel_tol=1e-9)


def _join(found: Columns, row: int, known: Record) -> None:
    """Adds to a row what its record in the journal tells."""
    for name in JOURNAL_KEEPS:
        found[name][row] = getattr(known, name)
    if found["status"][row] == OK:
        # The interval is the journal's, over processes, and so is the value inside it.
        for name in ("value", "low", "high"):
            found[name][row] = getattr(known, name)
    elif known.status != OK:
        found["status"][row] = known.status
