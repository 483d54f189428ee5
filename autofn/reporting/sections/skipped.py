"""The files that could not be read: what they held is missing from everything else on the page."""

from __future__ import annotations

from itertools import groupby

from ..inputs import Inputs
from ..model import Section, Text


def section(inputs: Inputs) -> Section:
    """One notice a damaged file, with its first fault; empty where all could be read."""
    files = [list(found) for _, found in groupby(inputs.skipped, lambda message: message.split(": ")[0])]
    notices = (f"{found[0]}{f' (and {len(found) - 1} more lines)' if len(found) > 1 else ''}" for found in files)
    return Section("Skipped files", "skipped", tuple(Text(notice, tone="bad") for notice in notices))
