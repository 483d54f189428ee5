"""Which results are shown, and which may be divided by each other."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ..records import OK, is_ceiling
from ..speedups import add_speedups

BASELINE = "eager"
SUBJECT = ["function", "workload", "dtype", "device", "phase"]
# Rows that differ in one of these were not measured side by side.
CONDITIONS = [
    "machine", "commit", "source", "run", "file", "version", "protocol", "threads", "device_model", "driver", "torch",
    "allocator", "cache",
]  # fmt: skip
# What may differ between results that are shown beside each other, and its title.
SHOWN_APART = {"machine": "Machine", "threads": "Threads", "allocator": "Allocator", "cache": "Cache", "way": "Way"}

# What rows that say the same thing share.
SAME = ["function", "variant", "workload", "dtype", "device", "phase", "metric", *SHOWN_APART]
RATIO = ["speedup", "speedup_low", "speedup_high", "verdict", "floor", "smallest_effect"]
MEANING = (
    "Speedup is time of the baseline `eager` / time, above 1 is faster: a ratio of medians of interleaved samples in "
    "one run (paired by round where the samples are kept, with its 95 % interval). It is called faster or slower where "
    "the interval lies beyond half of what two arms of `eager` may differ by. Only results of one machine, commit and "
    "run are divided."
)


def current(results: pd.DataFrame, baseline: str = BASELINE) -> pd.DataFrame:
    """The newest times, with `speedup` over the baseline of the same run, or `speedup_reason` where there is none.

    The columns RATIO are those of `add_speedups`. clear: whether the speedup surely differs from 1: as the verdict
    says, or, where there is none, the interval of the ratio, or else the two intervals of the times.
    """
    times = results[(results["metric"] == "time_s") & ~is_ceiling(results["function"])]
    shown = newest(times)
    # The runs of what is shown; of a long history that is little.
    times = times[times["commit"].isin(shown["commit"].unique()) & times["run"].isin(shown["run"].unique())]
    group = times.groupby([*SUBJECT, *CONDITIONS], dropna=False, sort=False).ngroup()
    # The group's number as the run: rows with equal runs then share all conditions.
    together = times.assign(run=group.astype(str))[group.isin(group[shown.index])]
    ratios = add_speedups(together, baseline).loc[shown.index, RATIO]
    found = shown.join(ratios)
    bases = together[together["variant"] == baseline].drop_duplicates("run", keep="last").set_index("run")
    bases = bases.reindex(group[shown.index].astype(str)).set_axis(shown.index)
    found["speedup_reason"] = [
        "" if ok else _reason(baseline, status)
        for ok, status in zip(found["speedup"].notna(), bases["status"], strict=True)
    ]
    known = found["speedup_low"].notna() & found["speedup_high"].notna()
    apart_from_one = (found["speedup_low"] > 1) | (found["speedup_high"] < 1)
    disjoint = (bases["low"] > found["high"]) | (bases["high"] < found["low"])
    found["clear"] = apart_from_one.where(known, disjoint) & (found["variant"] != baseline)
    judged = found["verdict"] != ""
    found.loc[judged, "clear"] = found.loc[judged, "verdict"].isin(["faster", "slower"])
    return found


def newest(results: pd.DataFrame, same: Sequence[str] = SAME) -> pd.DataFrame:
    """Of rows that say the same thing of the same machine and conditions, the one with the last date; by date.

    same: the columns that such rows share. asv dates a result by its commit, `autofn bench` by the clock: what ran in
    the working tree comes last.
    """
    by_date = results["date"].reset_index(drop=True).sort_values(kind="stable", na_position="first").index.to_numpy()
    # Of few columns, as a long history is mostly left behind.
    later = results[[*same]].iloc[by_date].duplicated(keep="last").to_numpy()
    return results.iloc[by_date[~later]]


def apart(rows: pd.DataFrame) -> list[str]:
    """The conditions in which the rows differ: those that a table has a column for, and a plot a title."""
    return [name for name in SHOWN_APART if rows[name].astype(str).nunique() > 1]


def _reason(baseline: str, status: object) -> str:
    if not isinstance(status, str):
        return f"no {baseline} in this run"
    return "" if status == OK else f"{baseline} is {status} in this run"
