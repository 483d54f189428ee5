"""Linear layer, `output = input @ weight.T + bias`.

input is (..., in_features), weight (out_features, in_features), bias (out_features,) or None, output
(..., out_features). With all leading dimensions taken as rows, the vjp of grad_output is
    grad_input  = grad_output @ weight
    grad_weight = grad_output.T @ input
    grad_bias   = the sum of grad_output over its rows
Source: "Extending PyTorch" of PyTorch's notes, section Extending torch.autograd.

Saved: input if weight needs a gradient, weight if input needs one; both are inputs, so they cost no new memory. The
bias is never saved, and nothing is computed for an input that needs no gradient.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times: it saves inputs only.

In `cpp` both products are ATen's; its own is the sum of the bias gradient: one pass that accumulates in float.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import linear


def make_inputs(
    rows: int, in_features: int, out_features: int, *, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[Any, ...]:
    """input (rows, in_features) and bias standard normal, weight scaled by in_features**-0.5: outputs are about 1."""
    generator = torch.Generator().manual_seed(seed)
    input = torch.randn(rows, in_features, generator=generator)
    weight = torch.randn(out_features, in_features, generator=generator) * in_features**-0.5
    bias = torch.randn(out_features, generator=generator)
    return tuple(t.to(device, dtype).requires_grad_() for t in (input, weight, bias))


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: input, weight, bias, output. Backward: grad_output, input, weight, and the three gradients."""
    rows, features, outputs = (workload[name] for name in ("rows", "in_features", "out_features"))
    input, weight, bias, output = rows * features, outputs * features, outputs, rows * outputs
    forward, backward = input + weight + bias + output, output + 2 * (input + weight) + bias
    return of_phase(phase, forward=forward * itemsize, backward=backward * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """One product of matrices forward, two backward; the bias is left out: 1 in 2 * in_features."""
    product = 2 * workload["rows"] * workload["in_features"] * workload["out_features"]
    return of_phase(phase, forward=product, backward=2 * product)


SPEC = Spec(
    name="linear",
    reference=linear,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "in_features": 7, "out_features": 3},
        "small": {"rows": 128, "in_features": 256, "out_features": 128},
        "large": {"rows": 8192, "in_features": 512, "out_features": 256},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(
            1e-5, 6e-4, "measured 1.9e-4, three times: a bias gradient adds up 8,192 terms in turn"
        ),
        torch.bfloat16: Tolerance(
            2**-6, 2e-2, "measured 7.5e-3: eager rounds the product, then the sum with the bias; three times"
        ),
        torch.float64: Tolerance(2e-14, 1.2e-12, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # inputs alone
)
