"""One recording of one Function, for all tests of what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from traces import FUNCTION, STEPS

import autofn


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Where, and by variant the summaries."""
    out = tmp_path_factory.mktemp("traces")
    return out, {found.variant: found for found in autofn.trace([FUNCTION], steps=STEPS, out=out)}


@pytest.fixture(scope="session")
def folders(recorded):
    """Where the runs lie that could be recorded here, `all` among them."""
    _, found = recorded
    return {name: Path(summary.folder) for name, summary in found.items() if summary.status == "ok"}
