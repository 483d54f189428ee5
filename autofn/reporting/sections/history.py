"""Of one Function: time over commits, one line a variant, one plot a workload and phase."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...records import OK
from .. import order, speedup
from ..history import DIRTY, Commit
from ..inputs import Inputs
from ..model import Block, Plot, Point, Section, Series, Text, anchor, several

ONE_PLOT = ["machine", "device", "dtype", "workload", "phase"]
# A change of one of these starts a new line: the values before and after do not compare.
ONE_LINE = [
    "source", "version", "protocol", "threads", "device_model", "driver", "torch", "allocator", "cache",
]  # fmt: skip


MOST_POINTS = 15_000
"""Of a page: about a megabyte."""


def bounded(inputs: Inputs, most: int = MOST_POINTS) -> tuple[Inputs, Section]:
    """Of more points than a page can hold the plots with the largest steps, and a section that says so."""
    timed = np.flatnonzero(inputs.results["metric"] == "time_s")
    if len(timed) <= most:
        return inputs, Section("Left out", "left-out")
    plots = inputs.results[["function", *ONE_PLOT]].iloc[timed].groupby(["function", *ONE_PLOT], dropna=False)
    number, counts = plots.ngroup(), plots.size()
    largest = _largest_steps(inputs)
    found = enumerate(counts.items())
    ranked = sorted(found, key=lambda plot: largest.get(plot[1][0], 0.0), reverse=True)
    sums = itertools.accumulate(count for _, (_, count) in ranked)
    chosen = [place for (place, _), total in zip(ranked, sums, strict=True) if total <= most]
    text = (
        f"{len(chosen)} of {len(ranked)} plots are here: more would make the page too large to open. They are those "
        "with the largest steps. A definition of your own that takes fewer results shows the others."
    )
    rows = inputs.results.iloc[timed[number.isin(chosen)]]
    return inputs.only(rows), Section("Left out", "left-out", (Text(text),))


def _largest_steps(inputs: Inputs) -> dict[Any, float]:
    """By what identifies a plot: the largest step in it, as the size of a logarithm."""
    found: dict[Any, float] = {}
    for step in inputs.changes:
        key = tuple(getattr(step, name) for name in ("function", *ONE_PLOT))
        found[key] = max(found.get(key, 0.0), abs(math.log(step.factor)))
    return found


def section(inputs: Inputs) -> Section:
    """The plots in order of dtype, workload and phase. Results of a changed working tree belong to no commit."""
    rows = inputs.results[inputs.results["metric"] == "time_s"]
    clean = (rows["commit"] != "") & ~rows["commit"].str.endswith(DIRTY)
    # Of several results of one commit under one set of conditions, the last.
    found = order.sort(speedup.newest(rows[clean], [*ONE_PLOT, "variant", "commit", *ONE_LINE]))
    blocks: list[Block] = []
    if (~clean).any():
        blocks.append(Text(f"{(~clean).sum()} results of a changed working tree, or without a commit, are not drawn."))
    machines = several(found["machine"])
    for group in order.groups(found, ONE_PLOT).values():
        if any(row["status"] == OK for row in group):
            blocks.append(_plot(group, inputs.commits, machines))
    if not any(isinstance(block, Plot) for block in blocks):
        blocks.append(Text("There is no time of a commit; `asv run` measures commits."))
    names = inputs.results["function"].unique()
    return Section("History", anchor(*names, "history"), tuple(blocks))


def _plot(rows: Sequence[dict[Any, Any]], commits: tuple[Commit, ...], machines: bool) -> Plot:
    first = rows[0]
    there = {row["commit"] for row in rows}
    used = [commit for commit in commits if commit.hash in there]
    settings = [column for column in ONE_LINE if several(str(row[column]) for row in rows if row["status"] == OK)]
    # Where all else is equal, a case that could not run belongs to its variant's line though it recorded no conditions.
    lines = order.groups_of(rows, ["variant", *settings]).values()
    series = [_line(_name(found[0], settings), found, used) for found in lines]
    words = [
        first["phase"],
        first["workload"],
        first["dtype"],
        first["device"],
        *([first["machine"]] if machines else []),
    ]
    return Plot(
        " · ".join(words),
        "commit",
        "time",
        "seconds",
        tuple(commit.short for commit in used),
        tuple(sorted(series, key=lambda line: order.variant_rank(line.tags["variant"]))),
        lines=True,
        tags=order.tags(first, "variant"),
    )


def _name(row: Mapping[Any, Any], settings: list[str]) -> str:
    """The variant, and by which conditions its line differs from others."""
    told = [f"{column} {row[column]}" for column in settings if not pd.isna(row[column]) and row[column] != ""]
    return " ".join([row["variant"], *([f"({', '.join(told)})"] if told else [])])


def _line(name: str, rows: Sequence[Mapping[Any, Any]], commits: list[Commit]) -> Series:
    variant = rows[0]["variant"]
    by_commit = {row["commit"]: row for row in rows}
    points = tuple(_point(by_commit[commit.hash], commit) for commit in commits if commit.hash in by_commit)
    return Series(name, order.kind(variant), points, {"variant": variant})


def _point(row: Mapping[Any, Any], commit: Commit) -> Point:
    date = commit.date.strftime("%Y-%m-%d") if not pd.isna(commit.date) else ""
    about = " ".join(filter(None, (date, commit.subject or "git does not know this commit here")))
    if row["status"] != OK or pd.isna(row["value"]):
        return Point(commit.short, None, note=f"{about}\n{row['status']}: {row['reason']}")
    low, high = (None if pd.isna(row[bound]) else row[bound] for bound in ("low", "high"))
    return Point(commit.short, row["value"], low, high, about)
