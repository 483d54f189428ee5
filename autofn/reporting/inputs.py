"""What a page is made from: the frame of results, and what git, asv and the profiler left beside it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from .. import results as stored
from ..records import ASV_RESULTS, is_ceiling
from .history import Commit, measured

TRACES = Path("traces")


@dataclass(frozen=True)
class Inputs:
    """results: the frame of `autofn.results`. skipped: a sentence for each file that could not be read.

    ceilings: the rows of the frame that tell what a machine reaches: of no Function, so no section counts them.
    machines: what asv knows of a machine, by name. traces: the summaries of `autofn.tracing`.
    detail: the address of the page that has a section for each Function; "" where it is the very page.
    """

    results: pd.DataFrame
    commits: tuple[Commit, ...] = ()
    machines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    traces: tuple[Mapping[str, Any], ...] = ()
    skipped: tuple[str, ...] = ()
    detail: str = ""
    ceilings: pd.DataFrame = field(default_factory=lambda: stored.frame(()))

    def only(self, rows: pd.DataFrame) -> Inputs:
        """The same with fewer results."""
        return replace(self, results=rows)

    def of(self, function: str) -> Inputs:
        """The same with the results and traces of one Function."""
        traces = tuple(summary for summary in self.traces if summary.get("function") == function)
        return replace(self, results=self.results[self.results["function"] == function], traces=traces)


def load(root: Path) -> Inputs:
    """Everything below `root`. What is damaged is named in `skipped`, and the rest is there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        found = stored.load(root)
        traces = _traces(root)
    skipped = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    of_machines = is_ceiling(found["function"])
    cases = found[~of_machines]
    return Inputs(cases, measured(cases, root), _machines(root), traces, skipped, ceilings=found[of_machines])


def _traces(root: Path) -> tuple[Mapping[str, Any], ...]:
    if not (root / TRACES).is_dir():
        return ()
    from ..tracing import load_summaries

    return tuple(load_summaries(root / TRACES))


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
