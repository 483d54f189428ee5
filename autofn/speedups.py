"""Speedups over a baseline and verdicts, derived from the frame: baseline time / time, above 1 is faster."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from .measure.statistics import Estimate, ratio
from .measure.verdict import Verdict, judge
from .records import is_ceiling

# A ratio is only taken between rows that share all of these.
TOGETHER = ["function", "workload", "dtype", "device", "phase", "machine", "commit", "run", "source"]
COLUMNS = ("speedup", "speedup_low", "speedup_high", "floor", "smallest_effect")


def add_speedups(results: pd.DataFrame, baseline: str = "eager") -> pd.DataFrame:
    """The `time_s` rows with columns speedup, speedup_low, speedup_high, verdict, floor and smallest_effect.

    Rows of one run that hold raw samples are paired by round. Over several processes the interval is one over processes
    and there is a verdict: faster, slower, same or cannot tell, against the floor, which is what two arms of the
    baseline differ by. In one process the interval is that process's, and there is no verdict. Without samples the
    speedup is the ratio of the medians, without an interval. NaN where there is no baseline or no time.
    """
    times = results[(results["metric"] == "time_s") & ~is_ceiling(results["function"])].copy()
    rows = list(times.itertuples())
    base = {_key(row): row for row in rows if row.variant == baseline}
    found = [_verdict(base.get(_key(row)), row) for row in rows]
    numbers = [(v.speedup.value, v.speedup.low, v.speedup.high, v.floor, v.smallest_effect) for v in found]
    for position, column in enumerate(COLUMNS):
        times[column] = pd.Series([row[position] for row in numbers], index=times.index, dtype="float64")
    times["verdict"] = [verdict.word for verdict in found]
    return times


def _key(row: Any) -> tuple[str, ...]:
    return tuple(getattr(row, column) for column in TOGETHER)


def _verdict(base: Any, row: Any) -> Verdict:
    if base is None or pd.isna(base.value) or pd.isna(row.value):
        return _without_verdict(Estimate(math.nan, None, None))
    generations = row.detail.get("generations")
    together = generations == base.detail.get("generations")
    if generations and together:
        mine, theirs = _split(row.samples, generations), _split(base.samples, generations)
        if row.variant == base.variant:
            return _without_verdict(Estimate(1.0, None, None))
        if "again" in base.detail:
            return judge(theirs, _split(base.detail["again"], generations), mine)
    if together and len(base.samples) == len(row.samples) > 0:
        return _without_verdict(ratio(base.samples, row.samples))
    return _without_verdict(Estimate(base.value / row.value, None, None))


def _without_verdict(speedup: Estimate) -> Verdict:
    return Verdict("", speedup, math.nan, None)


def _split(samples: Any, generations: list[int]) -> list[list[float]]:
    """Flat samples as a list a generation."""
    found, begin = [], 0
    for count in generations:
        found.append(list(samples[begin : begin + count]))
        begin += count
    return found
