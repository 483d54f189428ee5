"""Variants compared.

Each Function by variant, workload, phase and dtype: time with its 95 % interval, speedup over the reference under stock
autograd, what is kept for the backward, and what the checks say.
"""

from autofn.reporting import Inputs, Page
from autofn.reporting.definitions import comparison


def page(inputs: Inputs) -> Page:
    """Every result, whether asv or `autofn bench` and `autofn check` made it."""
    return comparison.page(inputs)
