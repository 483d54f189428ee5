"""SwiGLU gate, `y = silu(gate) * up`.

gate, up and y have one shape, any shape. With s = sigmoid(gate) and silu(gate) = gate * s, the vjp of grad_output is
    grad_gate = grad_output * up * (s + silu(gate) * (1 - s))
    grad_up   = grad_output * silu(gate)
Source: Shazeer 2020, "GLU Variants Improve Transformer", arXiv:2002.05202; the matrix products that give gate and
up are left outside.

Half types are computed in float32 and rounded once. At infinite gates the results are NaN where PyTorch's `silu` has
NaN: infinity times 0.

Saved: gate, and up where gate needs a gradient; both are inputs, so they cost no new memory. Recomputed: s, one
exponential an element, since saving it would keep a third tensor of this size until the backward.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times.

There is no `native` variant: PyTorch has no operator for it; the reference is its `silu` and a product.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import swiglu


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """gate and up of shape (rows, cols); gate is 3 times as wide as standard normal, to where silu is nearly linear."""
    generator = torch.Generator().manual_seed(seed)
    gate = torch.randn(rows, cols, generator=generator) * 3
    up = torch.randn(rows, cols, generator=generator)
    return tuple(t.to(device, dtype).requires_grad_() for t in (gate, up))


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: gate, up, y. Backward: grad_output, gate, up, grad_gate, grad_up."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=3 * elements * itemsize, backward=5 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, an exponential and a quotient taken for one operation each.

    Forward, 5: exponential, sum and quotient of s, and two products. Backward, 10: s and silu again (4), the
    difference, product and sum of the slope, two products of grad_gate and one of grad_up.
    """
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=5 * elements, backward=10 * elements)


SPEC = Spec(
    name="swiglu",
    reference=swiglu,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, near the root of the slope.
        torch.float32: Tolerance(2e-6, 2e-7, "16 ulp (2**-23) for any device's exponential; excess 4e-8, five times"),
        torch.bfloat16: Tolerance(
            2**-6, 1e-6, "eager rounds twice a result, half an ulp (2**-8) each time, margin of 2; measured excess 0"
        ),
        torch.float64: Tolerance(4e-15, 4e-16, "float32's, times 2**-29: the same steps with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # only inputs are saved
)
