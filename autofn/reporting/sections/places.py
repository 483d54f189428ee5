"""Of one Function: the same cases on several machines, devices or versions of torch, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...records import OK
from .. import order, speedup
from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, anchor, missing
from .times import bound

TITLE = "Between machines, devices and versions of torch"
PLACE = ["machine", "device", "torch"]
CASE = ["variant", "workload", "phase", "dtype", "threads", "allocator", "cache"]
CAPTION = (
    "the same case in each place, and how many times as fast as in the first one; from runs of their own, so a ratio "
    "has no interval and no verdict"
)

Place = tuple[str, ...]


def section(inputs: Inputs) -> Section:
    """One row a case that at least two places have measured, a time a place, and its ratio to the first place's."""
    rows = inputs.results
    rows = rows[(rows["metric"] == "time_s") & (rows["status"] == OK) & (rows["value"] > 0)]
    places = sorted({tuple(map(str, found)) for found in rows[PLACE].drop_duplicates().itertuples(index=False)})
    if len(places) < 2:
        return Section(TITLE, "places")
    function = str(rows["function"].iloc[0])
    newest = order.sort(speedup.newest(rows, [*CASE, *PLACE]))
    made = tuple(
        _row(found, places) for case in order.groups(newest, CASE).values() if len(found := _by_place(case)) > 1
    )
    table = Table(f"{function}: {CAPTION}", _columns(places), made)
    return Section(TITLE, anchor(function, "places"), (table,) if made else ())


def _by_place(case: Sequence[Mapping[Any, Any]]) -> dict[Place, Mapping[Any, Any]]:
    return {tuple(str(row[name]) for name in PLACE): row for row in case}


def _columns(places: Sequence[Place]) -> tuple[Column, ...]:
    names = [_name(place, places) for place in places]
    return (
        *map(Column, ("Variant", "Workload", "Phase", "dtype")),
        *(Column(name, "seconds", "the median, and the 95 % interval below it") for name in names),
        *(Column(f"{name} against {names[0]}", "ratio", "above 1 is faster than there") for name in names[1:]),
    )


def _name(place: Place, places: Sequence[Place]) -> str:
    """What tells the place from the others, such as "bench-1 cuda"."""
    differing = [len({other[number] for other in places}) > 1 for number in range(len(PLACE))]
    told = [word or "not recorded" for word in place]
    words = [f"torch {word}" if name == "torch" else word for name, word in zip(PLACE, told, strict=True)]
    return " ".join(word for word, tells in zip(words, differing, strict=True) if tells)


def _row(found: Mapping[Place, Mapping[Any, Any]], places: Sequence[Place]) -> Row:
    any_of = next(iter(found.values()))
    first = found.get(places[0])
    return Row(
        (
            *(Cell(str(any_of[name])) for name in ("variant", "workload", "phase", "dtype")),
            *(_time(found.get(place)) for place in places),
            *(_ratio(first, found.get(place)) for place in places[1:]),
        ),
        order.tags(any_of, "machine", "device"),
    )


def _time(row: Mapping[Any, Any] | None) -> Cell:
    if row is None:
        return missing("not measured there")
    return Cell(float(row["value"]), bound(row["low"]), bound(row["high"]))


def _ratio(first: Mapping[Any, Any] | None, row: Mapping[Any, Any] | None) -> Cell:
    if first is None or row is None:
        return missing("not measured in both")
    return Cell(float(first["value"]) / float(row["value"]))
