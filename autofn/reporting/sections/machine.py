"""What was measured on, with what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, missing

CONDITIONS = ["machine", "device", "device_model", "driver", "torch", "threads", "allocator", "cache", "source"]
COLUMNS = (
    Column("Machine"),
    Column("Device"),
    Column("Model"),
    Column("Cores", "number"),
    Column("Driver"),
    Column("torch"),
    Column("Threads", "number"),
    Column("Allocator", note="settled: the allocator keeps freed pages; it decides the time of large cases"),
    Column("Cache"),
    Column("Source"),
    Column("Results", "number"),
    Column("First", "date"),
    Column("Last", "date"),
)


def section(inputs: Inputs) -> Section:
    """One row a set of conditions. Dates are of the run, or, where asv measured, of the commit."""
    # A case that could not run has no conditions: it would add a row that says nothing.
    ran = inputs.results.loc[inputs.results["value"].notna(), [*CONDITIONS, "date"]]
    groups = ran.groupby(ran.groupby(CONDITIONS, dropna=False).ngroup())
    told = groups[CONDITIONS].first().assign(count=groups.size(), start=groups["date"].min(), end=groups["date"].max())
    rows = tuple(_row(row, inputs) for row in told.to_dict("records"))
    caption = "Conditions of the results; dates are UTC: of the run, or of the commit where asv measured"
    return Section("Machine", "machine", (Table(caption, COLUMNS, rows),) if rows else ())


def _row(key: Mapping[Any, Any], inputs: Inputs) -> Row:
    cores = inputs.machines.get(key["machine"], {}).get("num_cpu") if key["device"] == "cpu" else None
    return Row(
        (
            *(_text(key[name]) for name in ("machine", "device", "device_model")),
            _number(cores),
            Cell(key["driver"] or "none"),
            _text(key["torch"]),
            _number(key["threads"]),
            *(_text(key[name]) for name in ("allocator", "cache", "source")),
            Cell(float(key["count"])),
            *(_text("" if pd.isna(key[end]) else key[end].strftime("%Y-%m-%d %H:%M")) for end in ("start", "end")),
        ),
        {name: key[name] for name in ("machine", "device") if key[name]},
    )


def _text(value: str) -> Cell:
    return Cell(value) if value else missing("not recorded")


def _number(value: Any) -> Cell:
    """A count, also where asv wrote it as text."""
    return Cell(float(value)) if str(value).isdigit() else missing("not recorded")
