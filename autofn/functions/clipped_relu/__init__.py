"""Clipped ReLU, `y = min(max(x, 0), clip)`.

x and y have one shape, any shape; clip is a Python number above 0 and has no gradient. The vjp of grad_output is
    grad_x = grad_output where 0 < x < clip, else 0
The inequalities are strict: the subgradient at both corners is 0, as in `torch.nn.functional.hardtanh`; with clip 6 the
gradient at -2, 0.5, 3, 7 is 0, 1, 1, 0. A NaN in x stays NaN in y and gets gradient 0.

Saved: y. Since 0 < y < clip exactly where 0 < x < clip, the output tells all that the backward needs, and what follows
usually keeps it alive anyhow. No mask is stored: it would be new memory, and a compiled kernel stores bool slowly.
Freed: with the graph, when the backward has run. Differentiable twice; the second derivative in x is 0.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import clipped_relu


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), spread so that about a third lies on each side of the corners; clip is 6."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator) * 7 + 3
    return x.to(device, dtype).requires_grad_(), 6.0


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, y (or x), grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward min and max; backward the choice of grad_output or 0."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements, backward=elements)


EXACT = "no arithmetic: every element is copied or replaced, in any dtype"

SPEC = Spec(
    name="clipped_relu",
    reference=clipped_relu,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # y is an output
)
