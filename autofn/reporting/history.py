"""The commits that were measured, in the order of history, as `git log` tells it; without git, by date."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

DIRTY = "+dirty"


@dataclass(frozen=True)
class Commit:
    """hash is "" where a result says none. date: of the commit, or of its results where git does not know it."""

    hash: str
    subject: str
    date: pd.Timestamp
    known: bool

    @property
    def short(self) -> str:
        return self.hash[:8] or "none"


def measured(results: pd.DataFrame, root: Path) -> tuple[Commit, ...]:
    """The commits of the results, the oldest first, as git orders them; one that git does not know goes by its date."""
    dates = clean(results["commit"]).to_frame().assign(date=results["date"]).groupby("commit")["date"].min()
    order = [commit for commit in log(root, dates.index) if commit.hash in dates.index]
    unknown = set(dates.index) - {commit.hash for commit in order}
    for name, date in dates[dates.index.isin(unknown)].sort_values().items():
        later = (place for place, commit in enumerate(order) if commit.date > date)
        order.insert(next(later, len(order)), Commit(str(name), "", date, known=False))
    return tuple(order)


def clean(commits: pd.Series[str]) -> pd.Series[str]:
    """The commits below changed working trees: "<hash>+dirty" -> "<hash>"."""
    return commits.str.removesuffix(DIRTY)


def log(root: Path, hashes: Iterable[str]) -> list[Commit]:
    """What `git log` of the repository at `root` knows of these commits and their ancestors, the oldest first."""
    wanted = [name for name in hashes if re.fullmatch(r"[0-9a-f]{7,64}", name)]
    words = ["log", "--topo-order", "--reverse", "--ignore-missing", "--format=%H%x1f%cI%x1f%s", "--stdin"]
    try:
        run = subprocess.run(
            ["git", "-C", str(root), *words],
            input="".join(f"{name}\n" for name in wanted),
            check=True,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    # With no commit that it knows, git falls back to HEAD; `measured` leaves out what was not measured.
    lines = [line.split("\x1f", 2) for line in run.stdout.splitlines() if line.count("\x1f") >= 2]
    return [Commit(name, subject, pd.Timestamp(date).tz_convert("UTC"), known=True) for name, date, subject in lines]
