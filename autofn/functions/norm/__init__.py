"""Euclidean norm of rows, `y = sqrt(sum(x**2))`.

x is (..., features) with at least one dimension, y is (...); the sum runs over the last one. The vjp of grad_output is
    grad_x = grad_output * x / y, and 0 where y is 0
The norm has no derivative at 0: the subgradient 0 is taken there, as in torch, and 0 for all higher derivatives.

No square overflows or underflows: a row whose sum of squares would is divided by its largest first, so that in float32
a row of 1e30 has a norm, and one of 1e-30 too. `native` gives inf and 0 for them, with gradient 0. Where y itself
overflows, it is inf, and the gradient from y is 0. A row with an infinity has y = inf, gradient NaN at each infinity
and 0 elsewhere; one with a NaN has y and gradient NaN, as in torch.
Source: Blue 1978, "A Portable Fortran Program to Find the Euclidean Norm of a Vector", ACM TOMS 4(1),
https://doi.org/10.1145/355769.355771; with a second pass for the rare row instead of its three accumulators.

Half types are computed in float32.

Saved: x and y, input and output: no new memory.
Freed: with the graph, when the backward has run. Differentiable any number of times in `python`, for y is tracked as an
output.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import norm


def make_inputs(rows: int, features: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, features), standard normal."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, features, generator=generator).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, x, grad_x; y is not needed: x tells it."""
    rows = workload["rows"]
    x = rows * workload["features"]
    return of_phase(phase, forward=(x + rows) * itemsize, backward=(2 * x + rows) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, without the few a row: forward the square and the sum, backward one product."""
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=2 * elements, backward=elements)


SPEC = Spec(
    name="norm",
    reference=norm,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7},
        "small": {"rows": 128, "features": 512},
        "large": {"rows": 4096, "features": 1024},
    },
    tolerances={
        # Worst of any variant: 20 seeds of tiny and small, one of large. No atol: nothing cancels.
        torch.float32: Tolerance(1e-6, 0, "measured 3.3e-7, three times"),
        torch.bfloat16: Tolerance(2**-6, 0, "4 ulp (2**-8): native rounds y, each quotient and product; measured 1e-2"),
        torch.float64: Tolerance(4e-15, 0, "measured 1.3e-15, three times"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # x is an input and y an output
)
