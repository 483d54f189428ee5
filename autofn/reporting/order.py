"""The order in which a reader expects workloads, phases and variants, and what the filter needs of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..spec import REQUIRED_WORKLOADS
from ..terms import KINDS, PHASES
from .model import FILTERS

# The training step is what most readers come for.
STEP_FIRST = tuple(sorted(PHASES, key=lambda phase: phase != "forward_backward"))
KNOWN = {
    "workload": REQUIRED_WORKLOADS,
    "phase": STEP_FIRST,
    "dtype": ("float32", "bfloat16", "float16", "float64"),
}


def kind(variant: str) -> str:
    """What a variant is one of: `python_combined` is a `python`. A name of no known kind is its own."""
    return next((known for known in KINDS if variant == known or variant.startswith(f"{known}_")), variant)


def variant_rank(name: str) -> tuple[int, str]:
    """Sorts variants as the registry does."""
    found = kind(name)
    return (KINDS.index(found) if found in KINDS else len(KINDS), name)


def rank(column: str, name: str) -> tuple[int, str]:
    """Sorts the names of a column: those that every Function has in their usual order, then the others by name."""
    known = KNOWN.get(column, ())
    return (known.index(name) if name in known else len(known), name)


def sort(rows: pd.DataFrame) -> pd.DataFrame:
    """Side by side what is compared: by machine, device, dtype, workload and phase, then by variant."""
    columns = ["function", "machine", "device", "dtype", "workload", "phase", "variant"]
    places = [pd.Categorical(rows[name], names(name, rows[name].dropna().unique())).codes for name in columns]
    return rows.iloc[np.lexsort(places[::-1])]


def names(column: str, found: Iterable[str]) -> list[str]:
    """The distinct names of a column, in order."""
    if column == "variant":
        return sorted(set(found), key=variant_rank)
    return sorted(set(found), key=lambda name: rank(column, name))


def groups(rows: pd.DataFrame, by: Sequence[str]) -> dict[tuple[Any, ...], list[dict[Any, Any]]]:
    """The rows as plain dicts, by their values in these columns, in the order in which each is first met.

    A missing text or whole number is a value like the others. Frames of a few rows each would take a hundred times as
    long.
    """
    return groups_of(rows.to_dict("records"), by)


def groups_of(rows: Iterable[dict[Any, Any]], by: Sequence[str]) -> dict[tuple[Any, ...], list[dict[Any, Any]]]:
    """The same of rows that are plain dicts already."""
    found: dict[tuple[Any, ...], list[dict[Any, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in by), []).append(row)
    return found


def tags(row: Mapping[Any, Any], *without: str) -> dict[str, str]:
    """What the filter needs of a row. The Function is known from the section around it."""
    names = (name for name in FILTERS if name in row and name not in (*without, "function"))
    return {name: str(row[name]) for name in names if row[name]}
