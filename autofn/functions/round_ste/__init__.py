"""Rounding with a straight-through gradient, `y = round(x)`, halves to the even number.

x and y have one shape, any shape. The derivative is 0 almost everywhere, which teaches nothing; the gradient is that of
the identity instead. The vjp of grad_output is
    grad_x = grad_output
Source: Bengio, Léonard and Courville 2013, "Estimating or Propagating Gradients Through Stochastic Neurons for
Conditional Computation", arXiv:1308.3432.

The reference is the usual `x + (round(x) - x).detach()`. Its two roundings round nothing: where round(x) is 0 the
difference is -x, elsewhere x and round(x) are within a factor of 2 of each other, so that the difference is exact
(Sterbenz), and so is the sum, which is round(x). It differs at infinity alone, where it gives NaN and the hand-written
variants infinity, and in the sign of a 0, which it makes positive.

Saved: nothing, and the backward computes nothing: every variant hands grad_output on, as PyTorch's own `x + 1` does, so
that the gradient may be the very tensor that was passed in. Differentiable any number of times, in `fused` and `cpp`
too, whose backward calls no kernel.

There is no `native` variant: PyTorch's rounding has gradient 0, and its fake quantisation clamps.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import identity, round_ste


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), normal, times 4; an eighth of the elements lie half way between two numbers."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator) * 4
    halves = torch.rand(rows, cols, generator=generator) < 1 / 8
    return (torch.where(halves, x.floor() + 0.5, x).to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: nothing, the gradient is grad_output itself."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=0)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """One rounding an element."""
    return of_phase(phase, forward=workload["rows"] * workload["cols"], backward=0)


EXACT = "no result is rounded: y is a whole number below the precision of any dtype, the gradient a copy"

SPEC = Spec(
    name="round_ste",
    reference=round_ste,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    surrogate=identity,
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # nothing is saved
)
