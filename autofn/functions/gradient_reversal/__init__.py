"""Gradient reversal, `y = x` with the gradient of `-strength * x`.

x and y have one shape, any shape, and one memory: y is a view of x. strength is a Python number and has no gradient.
The vjp of grad_output is
    grad_x = -strength * grad_output
so that what lies before it learns to do the opposite of what lies behind it is asked for.
Source: Ganin and Lempitsky 2015, "Unsupervised Domain Adaptation by Backpropagation", arXiv:1409.7495.

Saved: nothing but the number. Freed: with the graph. Differentiable any number of times, as the surrogate is. As of
every view that a Function returns, PyTorch refuses to write into y in place.

The reference takes away again what it adds for the sake of its gradient: its value is x where x is finite, NaN at
infinity, and no view. There is no `native` variant, for PyTorch has none, and no `fused` one: the forward computes
nothing and the backward one product, which is a kernel of PyTorch's own already.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import gradient_reversal, scaled


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal; strength is 0.5, exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(), 0.5


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: nothing, y is a view. Backward: grad_output, grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=0, backward=2 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward none, backward one product."""
    return of_phase(phase, forward=0, backward=workload["rows"] * workload["cols"])


EXACT = "y is x, and half of a number is exact above the denormal ones"

SPEC = Spec(
    name="gradient_reversal",
    reference=gradient_reversal,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    surrogate=scaled,
    views=(0,),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # no tensor is saved
)
