"""Variants compared.

Each Function by variant, workload, phase and dtype: time with its 95 % interval, speedup over the reference under stock
autograd, what is kept for the backward, and what the checks say.
"""

from __future__ import annotations

from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Page
from autofn.reporting.sections import (
    breakeven,
    capabilities,
    checks,
    commits,
    functions,
    ledger,
    machine,
    matrix,
    memory,
    places,
    profile,
    samples,
    sizes,
    skipped,
    times,
    traces,
    tradeoff,
    variants,
)  # fmt: skip

PARTS = (variants, times, samples, sizes, breakeven, tradeoff, places, capabilities, checks, memory, ledger, profile)


def page(inputs: Inputs) -> Page:
    """The newest result of each case; the float32 training step is what shows first."""
    return Page(
        (
            skipped.section(inputs),
            matrix.section(inputs),
            machine.section(inputs),
            *functions.sections(inputs, [part.section for part in PARTS]),
            traces.section(inputs),
            commits.section(inputs),
        ),
        preset={"phase": "forward_backward", "dtype": "float32"},
    )
