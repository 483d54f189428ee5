"""Product with a constant, `y = x * constant`.

x and y have one shape, any shape; constant is a Python number and has no gradient. The vjp of grad_output is
    grad_x = grad_output * constant
Saved: nothing but the number itself. Freed: with the graph. Differentiable any number of times, for the backward is the
Function itself.
Source: "Extending PyTorch" of its documentation, the section on an input that is no tensor.

Two variants are plain Python. `python` has forward(x, constant) and a setup_context of its own, `python_combined` one
forward(ctx, x, constant). torch.func (grad, vmap, jvp) takes the first alone and refuses the second with an error. What
is gained by combining is a call: where a setup_context is overridden PyTorch binds and looks through all arguments once
more, which for a small tensor is a good part of the time. `autofn bench mul_constant -w tiny` shows it.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import mul_constant


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal; the constant is 2.5, exact in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(), 2.5


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=2 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """One product an element, forward and backward."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=elements)


ONE_ROUNDING = "one product, rounded once: half an ulp, and the constant is exact"

SPEC = Spec(
    name="mul_constant",
    reference=mul_constant,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        torch.float32: Tolerance(2**-24, 0, ONE_ROUNDING),
        torch.bfloat16: Tolerance(2**-8, 0, ONE_ROUNDING),
        torch.float64: Tolerance(0, 0, "the reference is the same product"),
    },
    version="1",
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # no tensor is saved
)
