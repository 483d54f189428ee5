"""The tidy frame as CSV, JSON or Parquet, for whatever reads those."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pandas as pd

NEEDS_PYARROW = (
    "results: parquet needs pyarrow, which is not installed; pip install 'autofn[parquet]', or take csv or json"
)


def export(results: pd.DataFrame, form: str) -> bytes:
    """The frame of `results.load` as a file's content, a row each; form is one of FORMS.

    Dates are UTC, as ISO 8601 where they are text. What is missing is empty in CSV and null elsewhere. CSV holds
    `samples` and `detail` as JSON text, Parquet only `detail`, whose keys differ from metric to metric.

    Raises ValueError for another form, and for Parquet where pyarrow is not installed.
    """
    if form not in FORMS:
        raise ValueError(f"results: the format must be one of {', '.join(FORMS)}, got {form!r}")
    return FORMS[form](results)


def _csv(results: pd.DataFrame) -> bytes:
    flat = _dated(results).assign(samples=results["samples"].map(_text), detail=results["detail"].map(_text))
    return flat.to_csv(index=False, lineterminator="\n").encode()


def _json(results: pd.DataFrame) -> bytes:
    rows = [{name: _plain(value) for name, value in row.items()} for row in _dated(results).to_dict("records")]
    return ("[\n" + ",\n".join(json.dumps(row, allow_nan=False) for row in rows) + "\n]\n").encode()


def _parquet(results: pd.DataFrame) -> bytes:
    content = BytesIO()
    try:
        results.assign(
            samples=results["samples"].map(list),
            detail=results["detail"].map(_text),
            date=pd.to_datetime(results["date"]),
        ).to_parquet(content, engine="pyarrow", index=False)
    except ImportError as error:
        raise ValueError(NEEDS_PYARROW) from error
    return content.getvalue()


FORMS: dict[str, Callable[[pd.DataFrame], bytes]] = {"csv": _csv, "json": _json, "parquet": _parquet}


def _dated(results: pd.DataFrame) -> pd.DataFrame:
    """With dates as text."""
    dates = results["date"].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return results.assign(date=dates.astype(object).where(dates.notna(), None))


def _text(value: Any) -> str:
    """JSON text; "" for what is empty."""
    return json.dumps(_plain(value), allow_nan=False) if value else ""


def _plain(value: Any) -> Any:
    """The value as JSON knows it: None for NaN, infinity and what is missing."""
    if isinstance(value, dict):
        return {str(key): _plain(found) for key, found in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(found) for found in value]
    if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value
