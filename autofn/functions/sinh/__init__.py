"""Hyperbolic sine, `y = (exp(x) - exp(-x)) / 2`.

x and y have one shape, any shape. The vjp of grad_output is
    grad_x = grad_output * cosh(x),    cosh(x) = (exp(x) + exp(-x)) / 2 = sqrt(1 + y**2)
Source: "Double Backward with Custom Functions" of PyTorch's tutorials, section Saving Intermediate Results.

Saved by `python`: exp(x) and exp(-x), two tensors of the size of x, so that the backward computes no exponential. They
are outputs of the Function that `apply` does not hand on: only as outputs are they functions of x to the second
derivative, which with saved intermediates is silently wrong (docs/lessons/sinh.md). It is differentiable any number of
times.
Saved by `fused` and `cpp`: y alone, the output, which costs no new memory; a square root gives cosh(x) with one
rounding more than the exponentials, in less time than one of them takes.
Freed: with the graph, when the backward has run.

Precision: near 0 the formula subtracts two numbers about 1, and its error is half an ulp of 1, not of y: at x = 1e-3 in
float32 four digits are left, in bfloat16 none. `cpp` and `native` keep all digits there, `cpp` by a series for
abs(x) < 1. exp(abs(x)) overflows at 88.73 in float32, where y is half the largest number: all variants give infinity
from there on, though y itself overflows at 89.42.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import sinh


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), normal with a standard deviation of 2: half of it where the exponentials cancel."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator) * 2
    return (x.to(device, dtype).requires_grad_(),)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, y (or x), grad_x."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=3 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, an exponential, a quotient and a root taken for one operation each.

    Forward, 4: exponential, its inverse, their difference and half of it. Backward, 4: the square, the sum, the root,
    and the product.
    """
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=4 * elements, backward=4 * elements)


SPEC = Spec(
    name="sinh",
    reference=sinh,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        # atol: half of what two exponentials about 1, one below and one above it, are off by where they cancel, twice.
        torch.float32: Tolerance(1e-6, 1.8e-7, "8 ulp (2**-23) for any device's exponential and root; measured 1.7"),
        torch.bfloat16: Tolerance(2**-6, 6e-3, "2 ulp (2**-7); measured 1.0: `python` rounds four times"),
        torch.float64: Tolerance(2e-15, 6.6e-16, "9 ulp (2**-52); measured 2.9, those of the reference among them"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= 2 * rows * cols * itemsize for python",  # exp(x) and exp(-x)
        "saved_new_bytes <= 0 for fused, cpp",  # y is an output
    ),
)
