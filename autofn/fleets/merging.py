"""A job's results into those of the repository: nothing is lost, and nothing counts twice.

Each machine has journals of its own: else each would have to be read to add the next. asv keeps one file a machine,
commit and environment. Cases that it lacks are filled in. A case that it has already, in a measurement of its own, is
kept too, in a file of `.asv/again`: asv would let the last one it reads stand for both, while `results.load` gives each
as rows of their own. To merge the same files twice changes nothing.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..records import ASV_AGAIN, ASV_JOURNAL, ASV_RESULTS, write_atomically

# Of asv's columns, what a benchmark has once; the others have a value a case.
ONCE = ("params", "version", "started_at", "duration")
MACHINE_FILE, BENCHMARKS_FILE = "machine.json", "benchmarks.json"

Content = dict[str, Any]


@dataclass(frozen=True)
class Merged:
    """values: how many the job brought. repeated: how many of them had been measured before."""

    values: int
    repeated: int


def merge(job: Path, root: Path, machine: str) -> Merged:
    """Merges results and journals of a job's folder, which ran on that machine, into those below `root`.

    Raises OSError where a disk is full; what is there stays whole, and so does the job's folder.
    """
    for path in sorted((job / ASV_JOURNAL).glob("*/*/*.jsonl")):
        target = root / ASV_JOURNAL / path.relative_to(job / ASV_JOURNAL)
        _append_lines(path, target.with_name(f"{path.stem}.{machine}.jsonl"))
    _merge_benchmarks(job / ASV_RESULTS / BENCHMARKS_FILE, root / ASV_RESULTS / BENCHMARKS_FILE)
    values = repeated = 0
    for path in sorted((job / ASV_RESULTS).glob("*/*.json")):
        target = root / ASV_RESULTS / path.parent.name / path.name
        if path.name == MACHINE_FILE:
            if not target.exists():
                write_atomically(target, path.read_text())
            continue
        new = json.loads(path.read_text())
        values += sum(_rank(value) == MEASURED for packed in new["results"].values() for value in packed[0] or ())
        repeated += _merge_results(new, target, root)
    return Merged(values, repeated)


def _append_lines(path: Path, target: Path) -> None:
    """The lines that the other journal lacks."""
    there = target.read_text(errors="replace") if target.exists() else ""
    known = set(there.splitlines())
    lines = [line for line in path.read_text(errors="replace").splitlines() if line not in known]
    if lines:
        ended = there if not there or there.endswith("\n") else f"{there}\n"
        write_atomically(target, ended + "".join(f"{line}\n" for line in lines))


def _merge_benchmarks(path: Path, target: Path) -> None:
    """What asv knows of the benchmarks; the job's is the newer one."""
    if not path.exists():
        return
    before = _read(target) or {}
    write_atomically(target, json.dumps({**before, **json.loads(path.read_text())}))


def _merge_results(new: Content, target: Path, root: Path) -> int:
    """Merges one file of asv's. Returns how many of its values had been measured before."""
    if target.exists() and _read(target) is None:
        # Damaged: it stays as it is, and asv reads the other one beside it.
        target = target.with_name(f"{target.stem}-mended.json")
    before = _read(target)
    if before is None:
        write_atomically(target, json.dumps(new))
        return 0
    kept, again = combine(before, new)
    if again["results"]:
        # First what would else be lost.
        _write_beside(root / ASV_AGAIN / target.parent.name / target.name, json.dumps(again))
    if kept != before:
        write_atomically(target, json.dumps(kept))
    return sum(_rank(value) == MEASURED for packed in again["results"].values() for value in packed[0] or ())


def _read(path: Path) -> Content | None:
    """A file of asv's, None where there is none or it is damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == 2 else None


def _write_beside(path: Path, text: str) -> None:
    """Under the first of the names stem-2, stem-3, ... that is free, unless one of them holds just that."""
    for number in itertools.count(2):
        name = path.with_name(f"{path.stem}-{number}.json")
        if not name.exists():
            return write_atomically(name, text)
        if name.read_text(errors="replace") == text:
            return None
    return None


def combine(before: Content, new: Content) -> tuple[Content, Content]:
    """Two files of one machine, commit and environment: what asv is to have, and what was measured again.

    Of a benchmark whose version or axes changed the new one is kept, and the old one is the other.
    """
    columns = list(dict.fromkeys([*before["result_columns"], *new["result_columns"]]))
    kept, again = ({**deepcopy(one), "result_columns": columns, "results": {}} for one in (before, new))
    theirs, ours = ({name: _unpacked(one, name) for name in one["results"]} for one in (before, new))
    for name in dict.fromkeys([*theirs, *ours]):
        old, found = theirs.get(name), ours.get(name)
        if old is None or found is None:
            whole, repeated = old or found, None
        elif [old.get(key) for key in ("params", "version")] != [found.get(key) for key in ("params", "version")]:
            whole, repeated = found, old
        else:
            whole, repeated = _by_case(old, found, columns)
        kept["results"][name] = [(whole or {}).get(column) for column in columns]
        if repeated:
            again["results"][name] = [repeated.get(column) for column in columns]
    return _or_same(kept, before), again


def _or_same(kept: Content, before: Content) -> Content:
    """The file as it was where it says the same: asv cuts columns that hold nothing."""
    said = json.dumps({name: _unpacked(kept, name) for name in kept["results"]}, sort_keys=True)
    there = json.dumps({name: _unpacked(before, name) for name in before["results"]}, sort_keys=True)
    return before if said == there else kept


def _unpacked(file: Content, name: str) -> Content:
    """A benchmark by column, without those that hold nothing."""
    packed = dict(zip(file["result_columns"], file["results"][name], strict=False))
    return {column: value for column, value in packed.items() if value is not None}


MISSING, FAILED, MEASURED = range(3)


def _rank(value: Any) -> int:
    """asv has NaN for a case that was not asked for or skipped, null for one that failed."""
    if value is None:
        return FAILED
    return MISSING if isinstance(value, float) and math.isnan(value) else MEASURED


def _by_case(old: Content, new: Content, columns: Sequence[str]) -> tuple[Content, Content | None]:
    """Case by case the one that says more, and the new one's where both were measured."""
    count = math.prod(len(axis) for axis in old["params"]) if old.get("params") else 1
    results = [_column(one, "result", count) for one in (old, new)]
    ranks = [tuple(map(_rank, pair)) for pair in zip(*results, strict=True)]
    # Two measurements that agree to the last digit are one, delivered twice; bytes that agree say nothing new.
    twice = [of == (MEASURED, MEASURED) and a != b for a, b, of in zip(*results, ranks, strict=True)]
    kept, again = {name: old.get(name) for name in ONCE}, {name: new.get(name) for name in ONCE}
    for column in columns:
        if column in ONCE:
            continue
        theirs, ours = (_column(one, column, count) for one in (old, new))
        kept[column] = [b if of[1] > of[0] else a for a, b, of in zip(theirs, ours, ranks, strict=True)]
        nothing = math.nan if column == "result" else None
        again[column] = [b if both else nothing for b, both in zip(ours, twice, strict=True)]
    return _without_empty(kept), _without_empty(again) if any(twice) else None


def _column(packed: Content, column: str, count: int) -> list[Any]:
    """A value a case. A whole column that is null says that each case failed, or that there is none."""
    found = packed.get(column)
    return list(found) if found is not None else [None] * count


def _without_empty(columns: Content) -> Content:
    """asv has null for a column of nulls, but of results, which then all failed."""
    return {
        name: None if isinstance(value, list) and all(entry is None for entry in value) else value
        for name, value in columns.items()
    }
