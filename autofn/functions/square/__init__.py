"""Square, `y = x**2`.

x and y have one shape, any shape. The vjp of grad_output is
    grad_x = grad_output * (2 * x)
In this order nothing overflows that y does not: twice grad_output could.

Saved: x, an input, so it costs no new memory, and the backward is a formula of inputs alone: `python` is differentiable
any number of times.
Freed: with the graph, when the backward has run.
Source: "Double Backward with Custom Functions" of PyTorch's tutorials, section Saving the Inputs.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import square


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, x, grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward one product; backward two."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=2 * elements)


ONCE = "one product is rounded, by half an ulp; the factor 2 is exact; margin of 2"

SPEC = Spec(
    name="square",
    reference=square,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        torch.float32: Tolerance(2**-23, 0, ONCE),
        torch.bfloat16: Tolerance(2**-7, 0, ONCE),
        torch.float64: Tolerance(2**-52, 0, ONCE),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # x is an input
)
