"""What was measured on, with what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..inputs import Inputs
from ..model import Cell, Column, Row, Section, Table, missing

CONDITIONS = ["machine", "device", "device_model", "driver", "torch", "threads", "allocator", "cache"]
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
    ran = inputs.results[inputs.results["value"].notna()]
    rows = tuple(
        _row(rows[[*CONDITIONS, "source"]].iloc[0].to_dict(), rows, inputs)
        for _, rows in ran.groupby([*CONDITIONS, "source"], dropna=False)
    )
    caption = "Conditions of the results; dates are UTC: of the run, or of the commit where asv measured"
    return Section("Machine", "machine", (Table(caption, COLUMNS, rows),) if rows else ())


def _row(key: Mapping[Any, Any], rows: pd.DataFrame, inputs: Inputs) -> Row:
    cores = inputs.machines.get(key["machine"], {}).get("num_cpu") if key["device"] == "cpu" else None
    dates = (rows["date"].min(), rows["date"].max())
    return Row(
        (
            *(_text(key[name]) for name in ("machine", "device", "device_model")),
            _number(cores),
            Cell(key["driver"] or "none"),
            _text(key["torch"]),
            _number(key["threads"]),
            *(_text(key[name]) for name in ("allocator", "cache", "source")),
            Cell(float(len(rows))),
            *(_text("" if pd.isna(date) else date.strftime("%Y-%m-%d %H:%M")) for date in dates),
        ),
        {name: key[name] for name in ("machine", "device") if key[name]},
    )


def _text(value: str) -> Cell:
    return Cell(value) if value else missing("not recorded")


def _number(value: Any) -> Cell:
    """A count, also where asv wrote it as text."""
    return Cell(float(value)) if str(value).isdigit() else missing("not recorded")
