"""Logarithm of the sum of exponentials of rows, `y = log(sum(exp(x)))`.

x is (..., features) with at least one dimension, y is (...); the sum runs over the last one. The largest of a row is
subtracted before the exponentials and added to the logarithm, so that they cannot overflow. The vjp of grad_output is
    grad_x = grad_output * exp(x - y)
A fully masked row, one of -inf alone, has y = -inf and gradient 0; `native` gives NaN as its gradient. A row with +inf
has y = +inf, and gradient NaN at each +inf and 0 elsewhere; one with a NaN has y and gradient NaN, as in torch.
Source: Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax functions", IMA Journal of
Numerical Analysis 41(4), https://doi.org/10.1093/imanum/draa038.

Half types are computed in float32. From y as it was rounded, as in `native`, the gradient would have the error of y as
a relative error of its whole row: half an ulp of y, so 2e-7 of a row about 1 in float32, but 2e-4 about 1,000, and in
bfloat16 2e-3 and more. So the backward takes the exponentials of x - max(x) and their sum, as `eager` does.

Saved: x, an input, and in `fused` and `cpp` one over the sum, one number a row in float32 at least: from it the
backward has the softmax by another maximum and one exponential an element, without another sum.
Freed: with the graph, when the backward has run. Differentiable any number of times in `python`, which recomputes the
sum too.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import logsumexp


def make_inputs(rows: int, features: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, features), standard normal. No masked row."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, features, generator=generator).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, x, grad_x; y is not needed: x tells it."""
    rows = workload["rows"]
    x = rows * workload["features"]
    return of_phase(phase, forward=(x + rows) * itemsize, backward=(2 * x + rows) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, without the few a row. Forward, 4: maximum, difference, exponential (taken for one operation), sum.

    Backward, 3: difference, exponential, product.
    """
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=4 * elements, backward=3 * elements)


SPEC = Spec(
    name="logsumexp",
    reference=logsumexp,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7},
        "small": {"rows": 128, "features": 512},
        "large": {"rows": 4096, "features": 1024},
    },
    tolerances={
        # Worst of any variant: 20 seeds of tiny and small, one of large. atol is an ulp of a row's largest, below 4,
        # and of the logarithm: what an output near 0 is off.
        torch.float32: Tolerance(4e-6, 5e-7, "native's gradients measured 1.2e-6, three times: from y as rounded"),
        torch.bfloat16: Tolerance(
            2**-6,
            5e-3,
            "half an ulp of y below 8, which scales native's gradient, and its excess of 1.6e-3, three times",
        ),
        torch.float64: Tolerance(
            6e-15, 1e-15, "native's gradients measured 1.95e-15, three times; atol as for float32"
        ),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0 for python", "saved_new_bytes <= max(4, itemsize) * rows"),  # one over the sum
    suppress={"special-values (native)": "torch gives NaN as the gradient of a row of -inf alone"},
)
