"""Long-term-memory cell, `new_cell = old_cell + elu(c) * sigmoid(i)`, `new_h = tanh(new_cell) * sigmoid(o)`.

The pre-activations are [i, o, c] = gates = [old_h, input] @ weights.T + bias: a recurrent cell without a forget gate.
input is (batch, features); old_h, old_cell, new_h and new_cell are (batch, state); weights is
(3 * state, state + features), bias (3 * state,). With t = tanh(new_cell), s = sigmoid, and elu' = min(elu, 0) + 1, the
vjp of grad_h and grad_cell (either may be absent) is
    grad_old_cell = grad_cell + grad_h * s(o) * (1 - t**2)
    grad_gates    = [grad_old_cell * elu(c) * s(i) * (1 - s(i)),
                     grad_h * t * s(o) * (1 - s(o)),
                     grad_old_cell * s(i) * elu'(c)]
    grad_weights  = grad_gates.T @ [old_h, input]
    grad_bias     = the sum of grad_gates over the batch
    [grad_old_h, grad_input] = grad_gates @ weights
Source: the cell of PyTorch's tutorial "Custom C++ and CUDA Extensions".

Saved: input, weights and old_h (inputs), new_cell (an output), and the gates: (batch, 3 * state), the only new memory,
for to rebuild them takes a matrix product. Each is saved only where a gradient needs it, old_cell and bias never.
Recomputed: the activations, four cheap functions an element, for a second buffer of the size of the gates would be kept
until the backward; and [old_h, input], whose copy costs little beside the product that reads it.
Freed: with the graph, when the backward has run.

There is no `native` variant: PyTorch has no such cell.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import lltm


def make_inputs(
    batch: int, features: int, state: int, *, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[Any, ...]:
    """Standard normal, but weights scaled by (state + features)**-0.5: the gates are about 1, and none saturates."""
    generator = torch.Generator().manual_seed(seed)
    tensors = (
        torch.randn(batch, features, generator=generator),
        torch.randn(3 * state, state + features, generator=generator) * (state + features) ** -0.5,
        torch.randn(3 * state, generator=generator),
        torch.randn(batch, state, generator=generator),
        torch.randn(batch, state, generator=generator),
    )
    return tuple(t.to(device, dtype).requires_grad_() for t in tensors)


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: the five inputs and two outputs. Backward: two grad_outputs, and the inputs and their gradients.

    The gates are in neither: a variant may rebuild them from the inputs.
    """
    batch, features, state = (workload[name] for name in ("batch", "features", "state"))
    inputs = batch * features + 3 * state * (state + features) + 3 * state + 2 * batch * state
    outputs = 2 * batch * state
    return of_phase(phase, forward=(inputs + outputs) * itemsize, backward=(2 * inputs + outputs) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """One product of matrices forward, two backward; the cell's own, about 10 a number of state, are left out."""
    batch, features, state = (workload[name] for name in ("batch", "features", "state"))
    product = 2 * batch * 3 * state * (state + features)
    return of_phase(phase, forward=product, backward=2 * product)


SPEC = Spec(
    name="lltm",
    reference=lltm,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"batch": 3, "features": 4, "state": 2},
        "small": {"batch": 16, "features": 64, "state": 128},
        "large": {"batch": 16384, "features": 128, "state": 128},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(1e-5, 3e-4, "measured 9.2e-5, three times: a bias gradient adds up 16,384 terms"),
        torch.bfloat16: Tolerance(
            2**-6,
            0.15,
            "measured 5.4e-2 in tiny and small, three times: eager rounds each activation, and grad_weights adds up 16 "
            "of them; where it adds up the 16,384 of large the excess is 1.1",
        ),
        torch.float64: Tolerance(2e-14, 6e-13, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= batch * 3 * state * itemsize",),  # the gates
)
