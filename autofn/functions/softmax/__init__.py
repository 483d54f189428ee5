"""Softmax of rows, `y = exp(x) / sum(exp(x))`.

x and y are (..., features) with at least one dimension; the sum runs over the last one, so another is moved there first
(`x.movedim(dim, -1)`). The largest of a row is subtracted before the exponentials, which cannot overflow then. The vjp
of grad_output is
    grad_x = y * (grad_output - sum(grad_output * y))
A fully masked row, one of -inf alone, has output 0 and gradient 0: no weight on anything. `native` gives NaN there. A
row with a NaN or +inf is NaN altogether, in every variant.
Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv:1805.02867, Algorithm 2.

Half types are computed in float32.

Saved: y, the output, so the backward computes no exponential and keeps no memory of its own.
Freed: with the graph, when the backward has run. Differentiable any number of times in `python`, for y is tracked as an
output.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import softmax


def make_inputs(rows: int, features: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, features), normal with deviation 3: a row's outputs span some decades. No masked row."""
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(rows, features, generator=generator)
    return (x.to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, y (or x), grad_x."""
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element. Forward, 5: maximum, difference, exponential (taken for one operation), sum, product.

    Backward, 4: the product and the sum of sum(grad_output * y), difference, product.
    """
    elements = workload["rows"] * workload["features"]
    return of_phase(phase, forward=5 * elements, backward=4 * elements)


SPEC = Spec(
    name="softmax",
    reference=softmax,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7},
        "small": {"rows": 128, "features": 512},
        "large": {"rows": 4096, "features": 1024},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(1e-5, 1.3e-6, "measured 4.3e-7, three times: a gradient is a difference near 0"),
        torch.bfloat16: Tolerance(2**-7, 9e-3, "measured 3e-3, three times: grad_x comes from y as it was rounded"),
        torch.float64: Tolerance(2e-14, 3e-15, "measured 9.1e-16, three times: float32's, with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # y is an output
)
