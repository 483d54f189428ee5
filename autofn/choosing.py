"""From measurements to `choice.json`: which variant `variant="auto"` means, by device, dtype and size."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from . import choice, registry
from .breakeven import sizes
from .measure.protocols import WALL
from .records import FAILED, OK, write_atomically
from .speedups import add_speedups

# Of two that cannot be told apart the first is chosen.
SIMPLEST_FIRST = ("eager", "native", "python", "cpp", "triton")
PHASE = "forward_backward"
CASE = ["variant", "workload", "dtype", "device"]
SAID = ("machine", "device_model", "torch", "commit")


def choose(function: str, results: pd.DataFrame, threads: int = 1) -> dict[str, Any] | None:
    """What the file of a Function holds, by the newest results; None where they hold no verdict on it.

    threads: only times of so many threads count, of which a row that does not say has one; on CUDA any.

    A variant is chosen where its training step is surely faster than that of `eager` and its newest checks found no
    error; of several that are not surely apart, the simplest. Between two measured sizes the change lies at their
    geometric mean. Raises ValueError for results of several machines.
    """
    mine = results[results["function"] == function]
    times = _times(function, mine[(mine["threads"].fillna(1) == threads) | (mine["device"] != "cpu")])
    if times.empty:
        return None
    largest = sizes(function, "large", times["dtype"].iloc[0], floating=True)
    position = max(largest, key=lambda each: largest[each])
    right = _right(mine)
    return {
        "elements_of": list(inspect.signature(registry.spec(function).reference).parameters)[position],
        "devices": {
            str(device): {
                "measured": _origin(rows),
                "dtypes": {str(dtype): list(_steps(found, position, right)) for dtype, found in rows.groupby("dtype")},
            }
            for device, rows in times.groupby("device")
        },
    }


def write(function: str, chosen: Mapping[str, Any]) -> None:
    """Replaces what the file says of the measured devices; what it says of others stays."""
    target = choice.path(function)
    if target is None:
        raise ValueError(f"choose: {function} has no folder of its own in which its choice could be kept")
    known = json.loads(target.read_text())["devices"] if target.exists() else {}
    whole = {**chosen, "devices": {**known, **chosen["devices"]}}
    write_atomically(target, json.dumps(whole, indent=1) + "\n")


def _times(function: str, results: pd.DataFrame) -> pd.DataFrame:
    """The newest verdict on each case of today's Spec; a run that could not have seen any effect has none."""
    spec = registry.spec(function)
    timed = add_speedups(results)
    known = timed["workload"].isin(spec.workloads) & timed["version"].isin(["", spec.version])
    timed = timed[known & (timed["phase"] == PHASE) & (timed["way"] == WALL) & timed["smallest_effect"].notna()]
    return timed.sort_values("date", kind="stable", na_position="first").drop_duplicates(CASE, keep="last")


def _origin(rows: pd.DataFrame) -> dict[str, str]:
    machines = sorted(set(rows["machine"]))
    if len(machines) > 1:
        raise ValueError(f"choose: one machine must be meant, got results of {', '.join(machines)}; give --machine")
    last = rows.sort_values("date", kind="stable", na_position="first").iloc[-1]
    date = "" if pd.isna(last["date"]) else f"{last['date']:%Y-%m-%d}"
    return {**{name: str(last[name]) for name in SAID}, "date": date}


def _right(results: pd.DataFrame) -> set[tuple[str, str]]:
    """(variant, device) of those whose newest checks passed, all that could be checked."""
    checks = results[results["source"] == "check"].sort_values("date", kind="stable", na_position="first")
    newest = checks.drop_duplicates([*CASE, "metric"], keep="last")
    found = {key: set(rows["status"]) for key, rows in newest.groupby(["variant", "device"])}
    return {(str(key[0]), str(key[1])) for key, statuses in found.items() if OK in statuses and FAILED not in statuses}


def _steps(rows: pd.DataFrame, position: int, right: set[tuple[str, str]]) -> Iterator[list[Any]]:
    """[elements, variant] by size, each another one than the step before."""
    by_size = {
        sizes(rows["function"].iloc[0], workload, rows["dtype"].iloc[0], floating=True)[position]: _best(of, right)
        for workload, of in rows.groupby("workload")
    }
    before = None
    for size, best in sorted(by_size.items()):
        if before is None:
            yield [0, best]
        elif best != before[1]:
            yield [round(math.sqrt(before[0] * size)), best]
        before = size, best


def _best(rows: pd.DataFrame, right: set[tuple[str, str]]) -> str:
    """Of the measured variants of one size."""
    kinds = {found.name: found.kind for found in registry.variants(rows["function"].iloc[0])}
    faster = [
        row
        for row in rows[rows["verdict"] == "faster"].to_dict("records")
        if kinds.get(row["variant"]) in SIMPLEST_FIRST and (row["variant"], row["device"]) in right
    ]
    if not faster:
        return "eager"
    surely = max(faster, key=lambda row: float(row["speedup"]))["speedup_low"]
    level = [row for row in faster if row["speedup_high"] >= surely]
    return str(min(level, key=lambda row: (SIMPLEST_FIRST.index(kinds[row["variant"]]), -row["speedup"]))["variant"])
