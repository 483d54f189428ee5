"""Which results are shown, and which may be divided by each other."""

from __future__ import annotations

import pandas as pd

from ..records import OK

BASELINE = "eager"
SUBJECT = ["function", "workload", "dtype", "device", "phase"]
# Rows that differ in one of these were not measured side by side.
CONDITIONS = [
    "machine", "commit", "source", "run", "file", "version", "protocol", "threads", "device_model", "driver", "torch",
    "allocator", "cache",
]  # fmt: skip
# What may differ between results that are shown beside each other, and its title.
SHOWN_APART = {"machine": "Machine", "threads": "Threads", "allocator": "Allocator", "cache": "Cache"}

MEANING = (
    "Speedup is the ratio of the medians of interleaved samples in one run: time of the baseline `eager` / time; "
    "above 1 is faster. Only results of one machine, commit and run are divided."
)


def times(results: pd.DataFrame, baseline: str = BASELINE) -> pd.DataFrame:
    """The rows of `time_s`, with `speedup` over the baseline or `speedup_reason` where there is none.

    `clear` tells whether the 95 % intervals of the two times lie apart.
    """
    found = results[results["metric"] == "time_s"].copy()
    group = found.groupby([*SUBJECT, *CONDITIONS], dropna=False, sort=False).ngroup()
    bases = found[found["variant"] == baseline].set_axis(group[found["variant"] == baseline])
    bases = bases[~bases.index.duplicated(keep="last")].reindex(group).set_axis(found.index)
    usable = (bases["status"] == OK) & (bases["value"] > 0) & (found["status"] == OK) & (found["value"] > 0)
    found["speedup"] = (bases["value"] / found["value"]).where(usable)
    found["clear"] = usable & ((bases["low"] > found["high"]) | (bases["high"] < found["low"]))
    found["speedup_reason"] = [
        "" if ok else _reason(baseline, base) for ok, base in zip(usable, bases["status"], strict=True)
    ]
    return found


def newest(results: pd.DataFrame) -> pd.DataFrame:
    """Of rows that say the same thing of the same machine and conditions, the one with the last date.

    asv dates a result by its commit, `autofn bench` by the clock: what ran in the working tree comes last.
    """
    identity = ["function", "variant", "workload", "dtype", "device", "phase", "metric", *SHOWN_APART]
    ordered = results.sort_values("date", kind="stable", na_position="first")
    return ordered.drop_duplicates(identity, keep="last")


def apart(rows: pd.DataFrame) -> list[str]:
    """The conditions in which the rows differ: those that a table has a column for, and a plot a title."""
    return [name for name in SHOWN_APART if rows[name].astype(str).nunique() > 1]


def _reason(baseline: str, status: object) -> str:
    if not isinstance(status, str):
        return f"no {baseline} in this run"
    return "" if status == OK else f"{baseline} is {status} in this run"
