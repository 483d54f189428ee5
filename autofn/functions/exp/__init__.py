"""Exponential, `y = exp(x)`.

x and y have one shape, any shape. The vjp of grad_output is
    grad_x = grad_output * y
Saved: y, the output, so the backward computes no exponential and keeps no memory of its own.
Freed: with the graph, when the backward has run. Differentiable any number of times, for y is tracked as an output.
Source: "Double Backward with Custom Functions" of PyTorch's tutorials, section Saving the Outputs.

There is no `native` variant: the reference is already PyTorch's operator.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import exp


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal: neither overflow nor denormal results."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, y, grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward one exponential, taken for one operation; backward one product."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=elements)


SPEC = Spec(
    name="exp",
    reference=exp,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        torch.float32: Tolerance(1e-6, 0, "8 ulp (2**-23): 2 of a vectorised exp, 1 of the product, margin of 2"),
        torch.bfloat16: Tolerance(2**-6, 0, "4 ulp (2**-8): y and the gradient are each rounded once, margin of 2"),
        torch.float64: Tolerance(1e-15, 0, "4 ulp (2**-52): a vectorised exp and one product"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # y is an output
)
