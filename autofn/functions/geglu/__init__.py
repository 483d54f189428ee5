"""GEGLU gate, `y = gelu(gate) * up`.

gate, up and y have one shape, any shape; approximate is "none" or "tanh" and has no gradient. gelu(x) = x * p(x) with
    none: p = Phi, the cumulative distribution of the standard normal; x * p' = x * exp(-x**2 / 2) / sqrt(2 * pi)
    tanh: p = (1 + tanh(u)) / 2 = sigmoid(2 * u), u = sqrt(2 / pi) * (x + 0.044715 * x**3);
          x * p' = x * sigmoid(2 * u) * sigmoid(-2 * u) * 2 * u'
With x = gate, the vjp of grad_output is
    grad_gate = grad_output * up * (p + x * p')
    grad_up   = grad_output * x * p
Source: Shazeer 2020, "GLU Variants Improve Transformer", arXiv:2002.05202; Hendrycks and Gimpel 2016, "Gaussian Error
Linear Units (GELUs)", arXiv:1606.08415. The matrix products that give gate and up are left outside.

p and p' are taken at gates cut off at 40 on either side, where they no longer change: so a large or infinite gate gives
the limits 0 and gate * up, and the slopes 0 and 1, where PyTorch's `gelu` multiplies infinity with 0. Below 0 Phi is
computed by itself, not as 1 minus what is nearly 1, so that the tail keeps its digits. Half types are computed in
float32 and rounded once.

Saved: gate, and up where gate needs a gradient; both are inputs, so they cost no new memory. Recomputed: p, one
exponential an element, since saving it would keep a third tensor of this size until the backward.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times.

There is no `native` variant: PyTorch has no operator for it; the reference is its `gelu` and a product.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import geglu


def make_inputs(
    rows: int, cols: int, approximate: str = "none", *, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[Any, ...]:
    """gate and up of shape (rows, cols); gate is 3 times as wide as standard normal, to where gelu is nearly linear."""
    generator = torch.Generator().manual_seed(seed)
    gate = torch.randn(rows, cols, generator=generator) * 3
    up = torch.randn(rows, cols, generator=generator)
    return *(t.to(device, dtype).requires_grad_() for t in (gate, up)), approximate


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: gate, up, y. Backward: grad_output, gate, up, grad_gate, grad_up."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=3 * elements * itemsize, backward=5 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element, a special function or a quotient taken for one operation.

    none: forward, 6: product, erf, sum and product of Phi, and two products. Backward, 14: gelu again (5), the square,
        product, exponential and product of the density, its product with x and the sum, two products of grad_gate and
        one of grad_up.
    tanh: forward, 8: three products and a sum of u, exponential, sum and quotient of the sigmoid are 7, two products
        less the factor 2 that goes into a constant. Backward, 16: gelu again (7), 1 - p, three products of x * p', two
        of u' and a sum, the sum of the slope, and three products of the gradients, less the square of x that is shared.
    """
    elements = workload["rows"] * workload["cols"]
    if workload.get("approximate") == "tanh":
        return of_phase(phase, forward=8 * elements, backward=16 * elements)
    return of_phase(phase, forward=6 * elements, backward=14 * elements)


SMALL, LARGE = {"rows": 128, "cols": 512}, {"rows": 4096, "cols": 1024}

SPEC = Spec(
    name="geglu",
    reference=geglu,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": SMALL,
        "large": LARGE,
        "small_tanh": {**SMALL, "approximate": "tanh"},
        "large_tanh": {**LARGE, "approximate": "tanh"},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, both approximations. It is PyTorch's own
        # `gelu`, whose tail below 0 is off by a part of 1; the excess of `python` and `cpp` is 4e-8.
        torch.float32: Tolerance(
            2e-6, 2e-5, "16 ulp (2**-23) for any device's exponential; excess 5.6e-6, three times"
        ),
        torch.bfloat16: Tolerance(
            2**-6, 2e-5, "eager rounds twice a result, half an ulp (2**-8) each time, margin of 2; excess as in float32"
        ),
        torch.float64: Tolerance(
            4e-15, 1e-13, "float32's rtol, times 2**-29; excess 2.7e-14, the reference's own, three times"
        ),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # only inputs are saved
)
