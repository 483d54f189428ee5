"""Speedups over a baseline and verdicts, derived from the frame: baseline time / time, above 1 is faster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

import pandas as pd

from .measure.statistics import Estimate, Nested, ratio
from .measure.verdict import Verdict, judge
from .records import is_ceiling

# A ratio is only taken between rows that share all of these.
TOGETHER = [
    "function", "workload", "dtype", "device", "phase", "machine", "commit", "run", "source", "protocol", "cache"
]  # fmt: skip
COLUMNS = ("speedup", "speedup_low", "speedup_high", "floor", "smallest_effect")


def add_speedups(results: pd.DataFrame, baseline: str = "eager") -> pd.DataFrame:
    """The `time_s` rows with columns speedup, speedup_low, speedup_high, verdict, floor and smallest_effect.

    Rows of one run that hold raw samples are paired by round. Over several processes the interval is one over servers
    and there is a verdict: faster, slower, same or cannot tell, against the floor, which is what two arms of the
    baseline differ by. In one process the interval is that process's, and there is no verdict. Without samples the
    speedup is the ratio of the medians, without an interval. NaN where there is no baseline or no time above 0.
    """
    times = results[(results["metric"] == "time_s") & ~is_ceiling(results["function"])].copy()
    rows = list(times[[*TOGETHER, "variant", "value", "samples", "detail"]].itertuples())
    key = attrgetter(*TOGETHER)
    base = {key(row): row for row in rows if row.variant == baseline}
    found = [_verdict(base.get(key(row)), row) for row in rows]
    numbers = [(v.speedup.value, v.speedup.low, v.speedup.high, v.floor, v.smallest_effect) for v in found]
    for position, column in enumerate(COLUMNS):
        times[column] = pd.Series([row[position] for row in numbers], index=times.index, dtype="float64")
    times["verdict"] = [verdict.word for verdict in found]
    return times


def _verdict(base: Any, row: Any) -> Verdict:
    # A time that a clock gave which stood still, or went backwards, divides nothing.
    if base is None or not base.value > 0 or not row.value > 0:
        return _without_verdict(Estimate(math.nan, None, None))
    together = _shape(row) == _shape(base)
    if _shape(row) and together:
        if row.variant == base.variant:
            return _without_verdict(Estimate(1.0, None, None))
        if "again" in base.detail:
            theirs, again = nested(base, base.samples), nested(base, base.detail["again"])
            return judge(theirs, again, nested(row, row.samples))
    if together and len(base.samples) == len(row.samples) > 0:
        return _without_verdict(ratio(base.samples, row.samples))
    return _without_verdict(Estimate(base.value / row.value, None, None))


def _without_verdict(speedup: Estimate) -> Verdict:
    return Verdict("", speedup, math.nan, None)


def _shape(row: Any) -> list[list[int]]:
    """A list a server of the number of samples of each generation; [] where all samples are one process's.

    Before servers were noted down each generation had one of its own.
    """
    generations = iter(row.detail.get("generations", ()))
    servers = row.detail.get("servers", [1] * len(row.detail.get("generations", ())))
    return [list(islice(generations, count)) for count in servers]


def nested(row: Any, samples: Sequence[float]) -> Nested:
    """Flat samples of a row of the frame, or of its `detail["again"]`, as a list a server of a list a generation."""
    waiting = iter(samples)
    return [[list(islice(waiting, count)) for count in generations] for generations in _shape(row)]
