"""Two recorded runs of a Function, operator by operator: what one has that the other lacks, and what takes longer.

Operators are paired by phase, name and input shapes. The plugin's own Diff view pairs them by position in its lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..terms import unknown
from .files import ALL, load_operators, load_summaries
from .operators import compiled_kernel

ADDED, REMOVED, SLOWER, FASTER = "added", "removed", "slower", "faster"


@dataclass(frozen=True)
class Side:
    """An operator in one run. calls, time_s: calls and own time of a step. low_s, high_s: the least and most of one."""

    calls: float = 0.0
    time_s: float = 0.0
    low_s: float = 0.0
    high_s: float = 0.0


@dataclass(frozen=True)
class Difference:
    """An operator that differs. what: "added" or "removed", for more or fewer calls in a step, "slower" or "faster"."""

    phase: str
    name: str
    input_shapes: str
    what: str
    before: Side
    after: Side


@dataclass(frozen=True)
class Pair:
    """Two runs of a Function by their folders, and where they differ."""

    function: str
    before: str
    after: str
    differences: tuple[Difference, ...]


def compare_traces(before: str, after: str, functions: Iterable[str], out: str | Path = "traces") -> list[Pair]:
    """Where recorded runs differ, the most time first; times are profiled ones.

    before, after: a variant that lies in `out`; or a folder of traces, as it is or in `out`, such as another commit's:
    of two folders every variant is compared that both have. An operator is slower where the least own time of a step
    is above the most of the other side: with three steps that happens by chance once in twenty.

    Raises LookupError for what was not recorded.
    """
    return [
        _pair(function, *folders)
        for function in functions
        for folders in _paired(_runs(before, function, Path(out)), _runs(after, function, Path(out)))
    ]


def _runs(name: str, function: str, out: Path) -> dict[str, Path]:
    """{variant: folder}; that of a variant by name alone has the key ""."""
    if (out / function / name / "operators.csv").is_file():
        return {"": out / function / name}
    for root in (Path(name), out / name):
        found = {path.parent.name: path.parent for path in sorted((root / function).glob("*/operators.csv"))}
        found.pop(ALL, None)
        if found:
            return found
    there = [path.parent.name for path in sorted((out / function).glob("*/operators.csv"))]
    if not there:
        raise LookupError(f"compare: there are no traces of {function} in {out}; autofn trace {function} records them")
    raise unknown(
        f"compare: in {out} there is no run of {function}, nor is there a folder of them, called", name, there
    )


def _paired(before: dict[str, Path], after: dict[str, Path]) -> list[tuple[Path, Path]]:
    if "" in before and "" in after:
        return [(before[""], after[""])]
    if "" in before:
        before = {before[""].name: before[""]}
    if "" in after:
        after = {after[""].name: after[""]}
    both = [name for name in before if name in after]
    if not both:
        raise LookupError(
            f"compare: the two sides must have a variant in common; one has {', '.join(before)}, the other "
            f"{', '.join(after)}"
        )
    return [(before[name], after[name]) for name in both]


def _pair(function: str, before: Path, after: Path) -> Pair:
    sides = _sides(before), _sides(after)
    found = [
        Difference(*key, what, one, other)
        for key in dict.fromkeys([*sides[0], *sides[1]])
        if (what := _what(one := sides[0].get(key, Side()), other := sides[1].get(key, Side())))
    ]
    found.sort(key=lambda each: (each.phase == "backward", -abs(each.after.time_s - each.before.time_s)))
    return Pair(function, str(before), str(after), tuple(found))


def _what(before: Side, after: Side) -> str | None:
    if before.calls != after.calls:
        return ADDED if after.calls > before.calls else REMOVED
    if after.low_s > before.high_s:
        return SLOWER
    return FASTER if after.high_s < before.low_s else None


def _sides(folder: Path) -> dict[tuple[str, str, str], Side]:
    """By phase, name and input shapes."""
    rows = _rows(folder)
    names = [_stable(row["name"]) for row in rows.to_dict("records")]
    columns = ["calls", "self_time_s", "low_s", "high_s"]
    sums = rows.assign(name=names).groupby(["phase", "name", "input_shapes"], sort=False)[columns].sum()
    steps = int(rows["steps"].iloc[0])
    return {
        key: Side(row["calls"] / steps, row["self_time_s"] / steps, row["low_s"], row["high_s"])
        for key, row in zip(sums.index, sums.to_dict("records"), strict=True)
    }


def _rows(folder: Path) -> pd.DataFrame:
    summaries = [found for found in load_summaries(folder.parents[1]) if Path(found["folder"]) == folder]
    rows = load_operators(summaries)
    if rows.empty:
        raise LookupError(f"compare: {folder} cannot be read; record it again with autofn trace")
    return rows


def _stable(name: str) -> str:
    """A name without what differs between two recordings of the same: the variant's label, and numbers of graphs."""
    label = re.fullmatch(r"[^/:]+/[^/:]+/(\w+)", name)
    if label:
        return f"the {label[1]} itself"
    return compiled_kernel(name) or re.sub(r"(Torch-Compiled Region): \d+/\d+", r"\1", name)
