"""Which runs need not be recorded again: an interrupted recording goes on where it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from .files import ALL, FLAME, MEMORY, TraceSummary
from .request import Request

Kept = Mapping[tuple[str, str], Mapping[str, Any]]
# What a summary and a request both say of a run.
SAME = ("workload", "dtype", "device", "steps", "stacks", "code")


def by_run(summaries: Iterable[Mapping[str, Any]]) -> Kept:
    """{(function, variant): summary}."""
    return {(summary["function"], summary["variant"]): summary for summary in summaries}


def runs_of(function: str, variants: Iterable[str], request: Request, kept: Kept) -> list[TraceSummary]:
    """The runs of the variants and of all of them, recorded as requested from the same code; [] where one is not.

    variants: those that can run here.
    """
    names = list(variants)
    wanted = [*names, *([ALL] if len(names) > 1 else [])]
    found = [kept[function, name] for name in wanted if _fits(kept.get((function, name)), request)]
    if len(found) < len(wanted):
        return []
    return [TraceSummary(**summary) for summary in found]


def _fits(summary: Mapping[str, Any] | None, request: Request) -> bool:
    if summary is None or not request.code or summary["torch"] != torch.__version__:
        return False
    folder = Path(summary["folder"])
    return (
        all(summary.get(name) == getattr(request, name) for name in SAME)
        and (not request.flame or (folder / FLAME).is_file())
        and (not request.memory or (folder / MEMORY).is_file())
    )
