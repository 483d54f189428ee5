"""What a page is made from: the frame of results, and what git, asv and the profiler left beside it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from .. import results as stored
from ..comparing.builds import resolve
from ..records import ASV_RESULTS, is_ceiling
from ..regressions import Step, steps
from ..tracing import load_operators, load_summaries
from .derived import Derived
from .history import Commit, measured

TRACES = Path("traces")


@dataclass(frozen=True)
class Inputs:
    """results: the frame of `autofn.results`. skipped: a sentence for each file that could not be read.

    ceilings: the rows of the frame that tell what a machine reaches: of no Function, so no section counts them.
    machines: what asv knows of a machine, by name. traces: the summaries of `autofn.tracing`; profile: their operators.
    changes: the steps from commit to commit: since `base`, or from `base` to `head`, full hashes, where they are given.
    out: the folder of the pages, where the address of a file begins. detail: the address of the page that has a section
    for each Function; "" where it is the very page. derived: what sections make from the results, made once for all.
    """

    results: pd.DataFrame
    commits: tuple[Commit, ...] = ()
    machines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    traces: tuple[Mapping[str, Any], ...] = ()
    profile: pd.DataFrame = field(default_factory=lambda: load_operators(()))
    skipped: tuple[str, ...] = ()
    changes: tuple[Step, ...] = ()
    base: str = ""
    head: str = ""
    out: str = "."
    detail: str = ""
    ceilings: pd.DataFrame = field(default_factory=lambda: stored.frame(()))
    derived: Derived = field(default_factory=lambda: Derived(stored.frame(())), repr=False, compare=False)

    def __post_init__(self) -> None:
        # The same with another folder or address shares it; with other results it is another one.
        if self.derived.results is not self.results:
            object.__setattr__(self, "derived", Derived(self.results))

    def only(self, rows: pd.DataFrame) -> Inputs:
        """The same with fewer results."""
        return replace(self, results=rows)

    def of(self, function: str) -> Inputs:
        """The same with the results and traces of one Function."""
        traces = tuple(summary for summary in self.traces if summary.get("function") == function)
        profile = self.profile[self.profile["function"] == function]
        own = self.derived.of(function)
        return replace(self, results=own.results, derived=own, traces=traces, profile=profile)


def load(root: Path, base: str = "", head: str = "") -> Inputs:
    """Everything below `root`. What is damaged is named in `skipped`, and the rest is there.

    base, head: revisions between which changes are told; head alone says nothing. Raises LookupError where one has no
    results.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        found = stored.load(root)
        traces = tuple(load_summaries(root / TRACES))
        profile = load_operators(traces)
    skipped = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    of_machines = is_ceiling(found["function"])
    cases = found[~of_machines]
    commits = measured(cases, root)
    base, head = (measured_hash(root, revision, commits) for revision in (base, head))
    changes = tuple(steps(cases, _order(commits, base, head)))
    return Inputs(
        cases, commits, _machines(root), traces, profile, skipped, changes, base, head, ceilings=found[of_machines]
    )


def measured_hash(root: Path, revision: str, commits: Sequence[Commit]) -> str:
    """The full hash of a revision that has results; "" for none. A hash may be one that git does not know here."""
    if not revision:
        return ""
    known = [commit.hash for commit in commits if len(revision) >= 7 and commit.hash.startswith(revision)]
    found = known[0] if len(known) == 1 else resolve(root, revision)
    if found not in {commit.hash for commit in commits}:
        there = ", ".join(commit.short for commit in commits) or "no commit"
        raise LookupError(f"report: {revision} ({found[:8]}) has no results here; there are results of {there}")
    return found


def _order(commits: Sequence[Commit], base: str, head: str) -> list[str]:
    """Between which commits steps are looked for, the oldest first."""
    if base and head:
        return [base, head]
    hashes = [commit.hash for commit in commits if commit.hash]
    return hashes[hashes.index(base) :] if base else hashes


def _machines(root: Path) -> dict[str, Mapping[str, Any]]:
    found = {}
    for path in sorted((root / ASV_RESULTS).glob("*/machine.json")):
        try:
            content = json.loads(path.read_text())
            found[str(content["machine"])] = content
        except (OSError, ValueError, KeyError, TypeError):
            # The results say most of what stands here too; the number of cores is then n/a.
            continue
    return found
