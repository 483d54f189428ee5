"""Overview.

Which variant is best, how much faster each is than the reference under stock autograd, whether it is right, what
changed from commit to commit, and what all of it was measured on.
"""

from __future__ import annotations

from .inputs import Inputs
from .model import Page
from .sections import changes, commits, machine, matrix, skipped, traces, verdicts

PRESET = {"phase": "forward_backward", "dtype": "float32"}


def page(inputs: Inputs) -> Page:
    """All Functions in one table; its links lead to the page with their details."""
    made = (part.section(inputs) for part in (skipped, verdicts, matrix, changes, machine, commits, traces))
    return Page(tuple(made), PRESET)
