"""Binarisation with a straight-through gradient, `y = sign(x)`, which is 1 or -1.

x and y have one shape, any shape. y is 1 at 0 and at -0.0; a NaN stays NaN. The derivative is 0 wherever there is one;
the gradient is instead that of the identity, or with `window`, a Python bool, that of the hard tanh. The vjp of
grad_output is
    grad_x = grad_output                               without window
    grad_x = grad_output where abs(x) <= 1, else 0     with window
so that a number far from 0, whose sign does not change, is left alone; 1 and -1 lie inside, NaN outside.
Source: Courbariaux, Hubara et al. 2016, "Binarized Neural Networks", arXiv:1602.02830, section 1.3.

Saved: nothing without window, and then the backward hands grad_output on. With window `python` and `fused` save x, an
input: no new memory, but x must live. `cpp` saves one bit an element, 32 to a word, and nothing where no gradient is
needed: x is free when the forward has run, and the backward reads a bit in place of a number. y cannot tell the window,
and a bool mask would be 8 bits an element, which a compiled kernel stores slowly.
Freed: with the graph, when the backward has run. Differentiable any number of times in `python`; `fused` and `cpp`
refuse with window, and without it have a backward that calls no kernel.

The reference adds `x - x.detach()`, a 0 with gradient 1, to the sign: `x + (sign(x) - x).detach()`, the usual formula,
gives 0 for 1e20. At infinity it is NaN without window. There is no `native` variant: PyTorch's sign has gradient 0.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import binarize_ste, hard_tanh

CORNERS = (0.0, -0.0, 1.0, -1.0)


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal, a third outside the window, an eighth put on corners; window is on."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator)
    corners = torch.tensor(CORNERS)[torch.randint(len(CORNERS), (rows, cols), generator=generator)]
    x = torch.where(torch.rand(rows, cols, generator=generator) < 1 / 8, corners, x)
    return x.to(device, dtype).requires_grad_(), True


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, a bit an element, which is all that it must know of x, and grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=2 * elements * itemsize + elements // 8)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: forward one comparison; backward the choice of grad_output or 0."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=elements)


EXACT = "no arithmetic: every element is 1, -1, 0 or copied, in any dtype"

SPEC = Spec(
    name="binarize_ste",
    reference=binarize_ste,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    surrogate=hard_tanh,
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= ceil(rows * cols / 32) * 4 for cpp",  # a bit an element, in words of 4 bytes
        "saved_new_bytes <= 0 for python, fused",  # x is an input
    ),
)
