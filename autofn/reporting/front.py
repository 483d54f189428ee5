"""Overview.

How much faster each variant is than the reference under stock autograd, whether it is right, and what all of it was
measured on.
"""

from __future__ import annotations

from .inputs import Inputs
from .model import Page
from .sections import commits, machine, matrix, skipped, traces

PRESET = {"phase": "forward_backward", "dtype": "float32"}


def page(inputs: Inputs) -> Page:
    """All Functions in one table; its links lead to the page with their details."""
    made = (part.section(inputs) for part in (skipped, matrix, machine, commits, traces))
    return Page(tuple(made), PRESET)
