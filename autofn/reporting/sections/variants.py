"""Of one Function: every case in every phase, with its time, its speedup, what it keeps and whether it is right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from ...rates import add_rates
from ...records import OK
from .. import order, speedup
from ..derived import current
from ..history import DIRTY
from ..inputs import Inputs
from ..model import Badge, Cell, Column, Row, Section, Table, Tone, anchor, missing, several
from . import checks

TITLES = {"device": "Device", **speedup.SHOWN_APART}
KEPT = {
    "saved_bytes": Column("Saved", "bytes", "what the saved-tensor hooks see, inputs and outputs among it"),
    "saved_new_bytes": Column("New", "bytes", "saved storages that are neither an input's nor an output's"),
}
ERROR = Column("Error", "number", "of outputs or gradients: the norm of what is wrong over that of the float64 truth")
# The phase whose error a row shows: a step's is that of its gradients.
ERROR_OF = {"forward_backward": "backward", "inference": "forward"}

RATES = {
    "gb_per_s": Column("GB/s", "number", "the least bytes that the phase must move, over the time"),
    "gflop_per_s": Column("GFLOP/s", "number", "the least operations that the phase must do, over the time"),
    "percent_of_ceiling": Column(
        "% of ceiling", "number", "of what a copy, or a matrix product, reached in the same run: the larger of the two"
    ),
}


def section(inputs: Inputs) -> Section:
    """One row a case and phase, the newest result of each; conditions have a column where they differ."""
    found = add_rates(order.sort(inputs.derived.frame(current)), inputs.ceilings)
    if found.empty:
        return Section("Variants", "variants")
    function = found["function"].iloc[0]
    apart = [*(["device"] if several(found["device"]) else []), *speedup.apart(found)]
    rates = [name for name in RATES if found[name].notna().any()]
    kept, verdicts = _kept(inputs.results), checks.verdicts(inputs)
    rows = tuple(
        Row(
            (
                text(row["variant"]),
                text(row["workload"]),
                measured(row),
                ratio(row),
                *(_rate(row, name) for name in rates),
                *(_kept_cell(row, metric, kept) for metric in KEPT),
                _error_cell(row, kept),
                replace(verdicts.get((function, row["variant"], row["device"]), missing("not checked")), note=""),
                *(text(row[column]) for column in ("phase", "dtype", *apart)),
                Cell(str(row["commit"])[:8] or "none", note=_origin(row)),
            ),
            order.tags(row),
        )
        for row in found.to_dict("records")
    )
    caption = f"{function}: times (median, 95 % interval). {speedup.MEANING}"
    return Section("Variants", anchor(function, "variants"), (Table(caption, _columns(apart, rates), rows),))


def _columns(apart: list[str], rates: list[str]) -> tuple[Column, ...]:
    return (
        *map(Column, ("Variant", "Workload")),
        Column("Time", "seconds", "median, and the 95 % interval below it"),
        Column("Speedup", "ratio", speedup.MEANING),
        *(RATES[name] for name in rates),
        *KEPT.values(),
        ERROR,
        Column("Checks", note="of all workloads and dtypes, on the same device"),
        *map(Column, ("Phase", "dtype", *(TITLES[column] for column in apart))),
        Column("Commit", "code"),
    )


def measured(row: Mapping[Any, Any]) -> Cell:
    """The value of a row with its interval, or the reason why there is none."""
    if row["status"] != OK or pd.isna(row["value"]):
        return Cell(
            status=row["status"] if row["status"] != OK else "n/a", reason=row["reason"] or "no reason recorded"
        )
    low, high = (None if pd.isna(row[bound]) else float(row[bound]) for bound in ("low", "high"))
    processes = "" if pd.isna(row["processes"]) else f"{row['processes']} processes"
    samples = f"{len(row['samples'])} samples" if row["samples"] else ""
    return Cell(float(row["value"]), low, high, note=", ".join(filter(None, (samples, processes, _throttled(row)))))


def _throttled(row: Mapping[Any, Any]) -> str:
    """How many samples were taken while something held the device's clocks down, and what."""
    places = row["detail"].get("throttled")
    return f"{len(places)} throttled by {', '.join(row['detail']['throttle'])}" if places else ""


def ratio(row: Mapping[Any, Any]) -> Cell:
    """The speedup of a row; green or red only where it surely differs from 1."""
    if pd.isna(row["speedup"]):
        return missing(row["speedup_reason"] or "no time")
    if row["variant"] == speedup.BASELINE:
        return Cell(row["speedup"], note="the baseline")
    low, high = (None if pd.isna(row[bound]) else row[bound] for bound in ("speedup_low", "speedup_high"))
    tone: Tone = "" if not row["clear"] else "good" if row["speedup"] > 1 else "bad"
    verdict = Badge(row["verdict"], tone) if row["verdict"] else None
    return Cell(row["speedup"], low, high, note=_seen(row), tone=tone, badge=verdict)


def _rate(row: Mapping[Any, Any], name: str) -> Cell:
    """A rate, or why there is none."""
    if not pd.isna(row[name]):
        return Cell(float(row[name]), note=f"bound by {row['bound']}" if name == "percent_of_ceiling" else "")
    if row["status"] != OK:
        return missing("no time")
    if name == "percent_of_ceiling" and not (pd.isna(row["gb_per_s"]) and pd.isna(row["gflop_per_s"])):
        return missing("no ceiling was measured in this run")
    return missing("the Spec declares none, or has changed since")


def _seen(row: Mapping[Any, Any]) -> str:
    """What a run could tell apart."""
    if pd.isna(row["smallest_effect"]):
        return "" if row["clear"] else "may be 1: the interval holds it, or is unknown"
    floor, effect = math.expm1(2 * row["floor"]), row["smallest_effect"]
    return f"two arms of {speedup.BASELINE} may differ by {floor:.1%}; the smallest effect to be seen was {effect:.1%}"


def _kept(results: pd.DataFrame) -> dict[tuple[str, ...], Mapping[Any, Any]]:
    rows = speedup.newest(results[results["metric"].isin([*KEPT, "error"])]).to_dict("records")
    return {_kept_key(row, row["metric"], row["phase"]): row for row in rows}


def _kept_key(row: Mapping[Any, Any], metric: str, phase: str) -> tuple[str, ...]:
    return (metric, phase, *(str(row[name]) for name in ("variant", "workload", "dtype", "device", "machine")))


def _kept_cell(row: Mapping[Any, Any], metric: str, kept: Mapping[tuple[str, ...], Mapping[Any, Any]]) -> Cell:
    if row["phase"] == "inference":
        return missing("no graph, nothing is saved")
    found = kept.get(_kept_key(row, metric, "forward"))
    return measured(found) if found else missing("not measured")


def _error_cell(row: Mapping[Any, Any], kept: Mapping[tuple[str, ...], Mapping[Any, Any]]) -> Cell:
    found = kept.get(_kept_key(row, "error", ERROR_OF.get(row["phase"], row["phase"])))
    return measured(found) if found else missing("not measured")


def text(value: Any) -> Cell:
    """A name or setting as it stands; one that is empty was not recorded."""
    return missing("not recorded") if pd.isna(value) or value == "" else Cell(str(value))


def _origin(row: Mapping[Any, Any]) -> str:
    date = "" if pd.isna(row["date"]) else row["date"].strftime("%Y-%m-%d %H:%M")
    dirty = "changed working tree" if str(row["commit"]).endswith(DIRTY) else ""
    named = {"source": row["source"], "run": row["run"], "protocol": row["protocol"]}
    return ", ".join([*(f"{name} {value}" for name, value in named.items() if value), *filter(None, [date, dirty])])
