"""Linear recurrence along time, `h[t] = a[t] * h[t - 1] + x[t]`.

a, x and h are (batch, time, channels) with at least one step; initial, (batch, channels), is the state before the first
one. With reverse the first step is the last of time: h[t] = a[t] * h[t + 1] + x[t]. The vjp of grad_h is a recurrence
the other way, from 0. Without reverse it is
    g[t]         = grad_h[t] + a[t + 1] * g[t + 1]
    grad_x[t]    = g[t]
    grad_a[t]    = g[t] * h[t - 1]    with initial for h[-1]
    grad_initial = a[0] * g[0]
Source: Martin and Cundy 2018, "Parallelizing Linear Recurrent Neural Nets Over Sequence Length", arXiv:1709.04057.

Half types are carried in float32 and each h is rounded once, for the rounding of each step would add up along time, as
it does in `eager`.

Saved: a, and where a needs a gradient h and initial. They are inputs and the output, so they cost no new memory, where
autograd keeps the state of every step beside the output.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times.

`python` and `fused` take a step of all blocks of eight steps at once, then treat what the blocks do to a state as steps
themselves, and so on: 4,096 steps are four times 16 operations. Nothing is divided by a product of many a, which soon
is 0. Such a product may overflow where no h does, and then these two give NaN.

There is no `native` variant: PyTorch has no such operator. There is no `compile`, for it would unroll the loop.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import linear_scan


def make_inputs(
    batch: int, time: int, channels: int, reverse: bool = False, *, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[Any, ...]:
    """x and initial standard normal; a between 0.5 and 1, so that h neither forgets at once nor grows."""
    generator = torch.Generator().manual_seed(seed)
    tensors = (
        1 - torch.rand(batch, time, channels, generator=generator) / 2,
        torch.randn(batch, time, channels, generator=generator),
        torch.randn(batch, channels, generator=generator),
    )
    return *(t.to(device, dtype).requires_grad_() for t in tensors), reverse


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: a, x, initial, h. Backward: grad_h, a, initial, h, grad_a, grad_x, grad_initial."""
    state = workload["batch"] * workload["channels"]
    elements = state * workload["time"]
    return of_phase(phase, forward=(3 * elements + state) * itemsize, backward=(5 * elements + 2 * state) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element: a product and a sum forward; the same backward, and the product of grad_a."""
    elements = workload["batch"] * workload["time"] * workload["channels"]
    return of_phase(phase, forward=2 * elements, backward=3 * elements)


SPEC = Spec(
    name="linear_scan",
    reference=linear_scan,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"batch": 2, "time": 11, "channels": 7},
        "small": {"batch": 4, "time": 64, "channels": 256},
        "large": {"batch": 8, "time": 512, "channels": 1024},
        "long": {"batch": 1, "time": 4096, "channels": 64},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large and long.
        torch.float32: Tolerance(1e-6, 6e-6, "measured 2.0e-6, three times"),
        torch.bfloat16: Tolerance(
            2**-7,
            0.75,
            "measured 0.24, three times: eager rounds at every step; the others exceed rtol by less than 1e-6, and "
            "tests of their own hold them to that",
        ),
        torch.float64: Tolerance(2e-15, 1.2e-14, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    without={"compile": "the loop is unrolled: 64 steps took 5 s to compile, 256 took 31 s, and `long` has 4,096"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # a and initial are inputs, h is the output
)
