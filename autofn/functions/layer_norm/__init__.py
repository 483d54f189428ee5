"""Layer normalisation, `y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias`.

x and y are (..., features), weight and bias (features,); mean and variance run over the last dimension, the variance
divided by features. eps is a Python number above 0, so that a constant row stays finite. With r = (var(x) + eps)**-0.5,
one number a row, z = (x - mean(x)) * r and s = grad_output * weight, the vjp of grad_output is
    grad_x      = r * (s - mean(s) - z * mean(s * z))
    grad_weight = the sum over the rows of grad_output * z
    grad_bias   = the sum over the rows of grad_output
Source: Ba, Kiros and Hinton 2016, "Layer Normalization", arXiv:1607.06450.

The variance is that of the differences from the mean: mean(x**2) - mean(x)**2 has no digits left where the mean is
large. In `cpp` the differences also correct the mean and the variance: Chan, Golub and LeVeque 1983, "Algorithms for
Computing the Sample Variance", eq. 1.7. Half types are computed in float32, and the gradients of weight and bias are
rounded once, when all rows are summed: a sum over thousands of rows in bfloat16 stops growing.

Saved: x where x or weight needs a gradient, weight where x does, and in `fused`, `cpp` and `triton` mean(x) and r: two
float32 (float64 for float64) a row, so that the backward reads x once less. `python` recomputes them from x, since it
must be differentiable twice.
Freed: with the graph, when the backward has run.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import layer_norm


def make_inputs(rows: int, features: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, features), normal about 0.5; weight about 1, bias about 0; eps is 1e-5."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.5 + torch.randn(rows, features, generator=generator)
    weight = 1 + 0.1 * torch.randn(features, generator=generator)
    bias = 0.1 * torch.randn(features, generator=generator)
    return *(t.to(device, dtype).requires_grad_() for t in (x, weight, bias)), 1e-5


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, weight, bias, y. Backward: grad_output, x, weight, and the three gradients; x tells mean and r."""
    features = workload["features"]
    x = workload["rows"] * features
    return of_phase(phase, forward=(2 * x + 2 * features) * itemsize, backward=(3 * x + 3 * features) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, without the few a row. Forward, 7: the sum of the mean, difference, square, its sum, and y's three.

    Backward, 12: difference and product of z, product and sum of grad_weight, the sum of grad_bias, s, its sum, product
    and sum of sum(s * z), and grad_x = s * r - (x - mean) * a - b with a and b one number a row: two products and two
    differences, one of them shared with z.
    """
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=7 * elements, backward=12 * elements)


SPEC = Spec(
    name="layer_norm",
    reference=layer_norm,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7},
        "small": {"rows": 128, "features": 512},
        "large": {"rows": 4096, "features": 1024},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(1e-5, 5e-4, "measured 1.7e-4, three times: a weight gradient adds up 4,096 terms"),
        torch.bfloat16: Tolerance(
            2**-7, 1e-3, "rounded once, half an ulp (2**-9) at most, margin of 4; measured excess 6e-8"
        ),
        torch.float64: Tolerance(2e-14, 1e-12, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= 0 for python",  # recomputed
        "saved_new_bytes <= 2 * rows * max(4, itemsize)",  # mean and inverse, in float32 at least
    ),
)
