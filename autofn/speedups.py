"""Speedups over a baseline, derived from the frame: baseline time / time, above 1 is faster."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .measure.statistics import Estimate, ratio

# A ratio is only taken between rows that share all of these.
TOGETHER = ["function", "workload", "dtype", "device", "phase", "machine", "commit", "run", "source"]


def add_speedups(results: pd.DataFrame, baseline: str = "eager") -> pd.DataFrame:
    """The `time_s` rows with columns speedup, speedup_low and speedup_high.

    Where both rows hold raw samples of one run, the samples of a round are a pair, and the speedup is the median of the
    pairs' ratios with its 95 % interval; else it is the ratio of the medians, without one. NaN where there is no
    baseline or no time.
    """
    times = results[results["metric"] == "time_s"].copy()
    rows = list(times.itertuples())
    base = {_key(row): row for row in rows if row.variant == baseline}
    found = [_speedup(base.get(_key(row)), row) for row in rows]
    for column, values in (
        ("speedup", [estimate.value for estimate in found]),
        ("speedup_low", [estimate.low for estimate in found]),
        ("speedup_high", [estimate.high for estimate in found]),
    ):
        times[column] = pd.Series(values, index=times.index, dtype="float64")
    return times


def _key(row: Any) -> tuple[str, ...]:
    return tuple(getattr(row, column) for column in TOGETHER)


def _speedup(base: Any, row: Any) -> Estimate:
    if base is None or pd.isna(base.value) or pd.isna(row.value):
        return Estimate(float("nan"), None, None)
    if len(base.samples) == len(row.samples) > 0:
        return ratio(base.samples, row.samples)
    return Estimate(base.value / row.value, None, None)
