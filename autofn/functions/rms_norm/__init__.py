"""Root-mean-square normalisation, `y = x / sqrt(mean(x**2) + eps) * weight`.

x and y are (..., features), weight is (features,), the mean runs over the last dimension; eps is a Python number above
0, so that a row of zeros stays finite. With r = (mean(x**2) + eps)**-0.5, one number a row, and
s = grad_output * weight, the vjp of grad_output is
    grad_x      = r * (s - x * r**2 * mean(s * x))
    grad_weight = the sum over the rows of grad_output * x * r
Source: Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", arXiv:1910.07467.

Half types are computed in float32, and grad_weight is rounded once, when all rows are summed: a sum over thousands of
rows in bfloat16 stops growing.

Saved: x, weight where x needs a gradient, and in all but `python` r: one float32 (float64 for float64) a row, so that
the backward reads x once less. `python` recomputes r from x, since it must be differentiable twice.
Freed: with the graph, when the backward has run.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import rms_norm


def make_inputs(rows: int, features: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, features), standard normal; weight about 1; eps is 1e-6."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=generator)
    weight = 1 + 0.1 * torch.randn(features, generator=generator)
    return *(t.to(device, dtype).requires_grad_() for t in (x, weight)), 1e-6


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, weight, y. Backward: grad_output, x, weight, grad_x, grad_weight; r is not needed: x tells it."""
    features = workload["features"]
    x = workload["rows"] * features
    return of_phase(phase, forward=(2 * x + features) * itemsize, backward=(3 * x + 2 * features) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, without the few a row. Forward, 4: square, sum, and the two products of y.

    Backward, 8: with u = grad_output * r and t = u * weight, the product and the sum of grad_weight = sum(u * x), those
    of sum(t * x), and the product and the difference of grad_x = t - x * c, c being one number a row.
    """
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=4 * elements, backward=8 * elements)


SPEC = Spec(
    name="rms_norm",
    reference=rms_norm,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7},
        "small": {"rows": 128, "features": 512},
        "large": {"rows": 4096, "features": 1024},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(1e-5, 4e-4, "measured 1.3e-4, three times: a weight gradient adds up 4,096 terms"),
        torch.bfloat16: Tolerance(
            2**-7, 1e-3, "rounded once, half an ulp (2**-9) at most, margin of 4; measured excess 3e-9"
        ),
        torch.float64: Tolerance(2e-14, 8e-13, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= 0 for python",  # recomputed
        "saved_new_bytes <= rows * max(4, itemsize)",  # the inverse, a number a row in float32 at least
    ),
)
