"""All Functions by all variants: how much faster than the baseline, and whether right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ... import registry
from ...records import FAILED, OK, UNAVAILABLE
from .. import order, speedup
from ..derived import current
from ..inputs import Inputs
from ..model import Badge, Cell, Column, Row, Section, Table, Tone, anchor, missing
from ..units import TIMES
from . import checks

GROUP = ["device", "dtype", "phase"]
CAPTION = (
    "Speedup over `eager`: geometric mean over the workloads (all of them, whatever the filter says), from the slowest "
    f"to the fastest below it, and what the checks say. {speedup.MEANING}"
)
Rows = Sequence[dict[Any, Any]]
Badges = Mapping[tuple[str, str, str], Badge]


def section(inputs: Inputs) -> Section:
    """One row a Function, device, dtype, phase and conditions; a Function without a time is one row of n/a."""
    found = order.sort(inputs.derived.frame(current))
    variants = _variants(inputs.results)
    apart = speedup.apart(found)
    times = order.groups(found, ["function"])
    badges = {key: checks.badge(cell) for key, cell in checks.verdicts(inputs).items()}
    columns = (
        Column("Function"),
        *(Column(name, "ratio", tags={"variant": name}) for name in variants),
        *map(Column, ("Device", "dtype", "Phase", *(speedup.SHOWN_APART[name] for name in apart))),
    )
    measured = inputs.results["function"].unique()
    links = dict.fromkeys(registry.names(), "") | {name: f"{inputs.detail}#{anchor(name)}" for name in measured}
    heads = [_head(name, link) for name, link in sorted(links.items())]
    rows = (row for head in heads for row in _rows(head, times.get((head.value,), ()), badges, (variants, apart)))
    return Section("Functions and variants", "matrix", (Table(CAPTION, columns, tuple(rows)),))


def _variants(results: pd.DataFrame) -> list[str]:
    declared = {variant.name for name in registry.names() for variant in registry.variants(name)}
    return sorted({*declared, *results["variant"].unique()} - {""}, key=order.variant_rank)


def _head(name: str, link: str) -> Cell:
    """The Function with its formula, linked to its section where it has results."""
    return Cell(name, link=link, note=registry.summary(name) if name in registry.every_name() else "")


def _rows(head: Cell, times: Rows, badges: Badges, columns: tuple[list[str], list[str]]) -> Iterator[Row]:
    name, (variants, apart) = str(head.value), columns
    for key, rows in order.groups_of(times, [*GROUP, *apart]).items():
        told = tuple(Cell("" if value is pd.NA else str(value)) for value in key)
        by_variant = order.groups_of(rows, ["variant"])
        cells = (
            _cell(name, variant, by_variant.get((variant,), []), badges.get((name, variant, str(key[0]))))
            for variant in variants
        )
        yield Row((head, *cells, *told), {"function": name, **order.tags(rows[0], "workload", "variant")})
    if not times:
        for device in sorted({device for function, _, device in badges if function == name} or {""}):
            cells = (_absent(name, variant, badges.get((name, variant, device))) for variant in variants)
            yield Row((head, *cells, Cell(device), *[Cell("")] * (2 + len(apart))), {"function": name})


def _cell(function: str, variant: str, rows: list[dict[Any, Any]], badge: Badge | None) -> Cell:
    """The geometric mean of the speedups, with the least and the largest as its bounds."""
    if not rows:
        return _absent(function, variant, badge)
    badge = badge or Badge("not checked")
    found = [row for row in rows if row["speedup"] > 0]
    if not found:
        return _failed(rows, badge)
    ratios = [row["speedup"] for row in found]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    told = (f"{row['workload']} {row['speedup']:.3g}{TIMES}" for row in found)
    lost = (f"{row['workload']} {row['status']}" for row in rows if not row["speedup"] > 0)
    cell = Cell(mean, note=", ".join([*told, *lost]), tone=_tone(found), badge=badge)
    return replace(cell, low=min(ratios), high=max(ratios)) if len(set(ratios)) > 1 else cell


def _tone(rows: list[dict[Any, Any]]) -> Tone:
    """Green or red where all workloads that surely differ from 1 agree."""
    faster = {bool(row["speedup"] > 1) for row in rows if row["clear"]}
    return "" if len(faster) != 1 else "good" if faster == {True} else "bad"


def _failed(rows: list[dict[Any, Any]], badge: Badge) -> Cell:
    first = min(rows, key=lambda row: bool(row["status"] != FAILED))
    reason = first["speedup_reason"] if first["status"] == OK else first["reason"]
    status = FAILED if first["status"] == FAILED else UNAVAILABLE
    return Cell(status=status, reason=reason or "no reason recorded", badge=badge)


def _absent(function: str, variant: str, badge: Badge | None) -> Cell:
    """n/a, for one of: the Function says why it has none, has none, or has one that was not measured."""
    try:
        without = registry.spec(function).without
    except LookupError:
        return replace(missing("not measured"), badge=badge)
    if variant in without:
        return missing(without[variant])
    if variant not in {found.name for found in registry.variants(function)}:
        return missing("no such variant")
    return replace(missing("not measured"), badge=badge)
