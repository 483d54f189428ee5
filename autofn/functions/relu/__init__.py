"""Rectified linear unit, `y = max(x, 0)`.

x and y have one shape, any shape. The vjp of grad_output is
    grad_x = 0 where x <= 0, else grad_output
At 0 the gradient is 0, one of the subgradients and the one of `torch.relu`. A NaN in x stays NaN in y and lets
grad_output through, as in `torch.relu`: it is not at or below 0.

Saved: y. Since y <= 0 exactly where x <= 0, the output tells all that the backward needs, and what follows usually
keeps it alive anyhow: x may go. No mask is stored: it would be new memory, and a compiled kernel stores bool slowly.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times; the second derivative
in x is 0.
Source: "Defining new autograd functions" of PyTorch's tutorials, whose Function saves x.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import relu


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal: half of it below 0, in no order that a branch could learn."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, y (or x), grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward one maximum; backward the choice of grad_output or 0."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=elements)


EXACT = "no arithmetic: every element is copied or replaced by 0, in any dtype"

SPEC = Spec(
    name="relu",
    reference=relu,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # y is an output
)
