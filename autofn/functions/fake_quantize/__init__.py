"""Fake quantisation with a learned step (LSQ), `y = clamp(round(x / step), quant_min, quant_max) * step`.

x and y have one shape, any shape. step is one number for all of x, of shape () or (1,), or with `channel`, a dimension
of x, one for each of its indices, of shape (x.shape[channel],). quant_min < quant_max are Python whole numbers,
quant_max above 0; halves are rounded to the even number. With r = x / step and
c = clamp(r, quant_min, quant_max), so that y = round(c) * step, the vjp of grad_output is
    grad_x    = grad_output where c == r, else 0
    grad_step = f * the sum over the elements that share the step of
                grad_output * (round(c) - (r where c == r, else 0))
with f = (elements that share the step * quant_max)**-0.5, the paper's scale, by which steps learn as fast as weights.
The gradient of x is straight through where nothing is clipped. The corners r == quant_min and r == quant_max count as
inside, as in torch.clamp, by which the paper's code clips; its equations (3) and (5) count them as outside. A NaN stays
NaN. That step is above 0 is not checked: on a GPU that would wait for the device.
Source: Esser et al. 2020, "Learned Step Size Quantization", arXiv:1902.08153; the reference is its appendix A, with the
value and the gradient of each detached pair exact.

Half types are computed in float32, and grad_step is rounded once, when all is summed, in a fixed order.

Saved: x and step, both inputs, so they cost no new memory. What the forward rounded is recomputed: a division an
element, which hides behind the reading of x.
Freed: with the graph, when the backward has run. `python` is differentiable any number of times, as its gradient is: it
gives the slopes of the gradient above. That of step depends on x, that of x not on step: they are no derivatives of one
function, so that autograd's second derivative of the reference, which has to be symmetric, is another one.

There is no `native` variant: `torch._fake_quantize_learnable_per_tensor_affine` counts r as inside up to half a step
beyond the corners, and multiplies by 1 / step, which rounds some halves another way.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import fake_quantize

QUANT_MIN, QUANT_MAX = -8, 7


def make_inputs(
    rows: int, cols: int, channel: int | None, *, dtype: torch.dtype, device: str, seed: int = 0
) -> tuple[Any, ...]:
    """x of shape (rows, cols), step about 0.1, for four bits. x / step is normal, with a tenth of it outside.

    No x / step lies within 0.05 of a half, where float32 and float64 would round to different numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    ratio = 5 * torch.randn(rows, cols, generator=generator)
    ratio = ratio.round() + 0.9 * (ratio - ratio.round())
    shape = () if channel is None else (ratio.shape[channel],)
    step = 0.1 + 0.05 * torch.rand(shape, generator=generator)
    x = ratio * (step if channel is None else step.unsqueeze(1 - channel))
    return *(t.to(device, dtype).requires_grad_() for t in (x, step)), QUANT_MIN, QUANT_MAX, channel


def steps(workload: Workload) -> int:
    """How many numbers step holds."""
    return 1 if workload["channel"] is None else (workload["rows"], workload["cols"])[workload["channel"]]


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, step, y. Backward: grad_output, x, step, grad_x, grad_step."""
    elements, count = workload["rows"] * workload["cols"], steps(workload)
    return of_phase(phase, forward=(2 * elements + count) * itemsize, backward=(3 * elements + 2 * count) * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element. Forward, 5: quotient, two of clamp, rounding, product.

    Backward, 8: quotient, two of clamp, comparison, rounding, difference, product, sum.
    """
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=5 * elements, backward=8 * elements)


SPEC = Spec(
    name="fake_quantize",
    reference=fake_quantize,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7, "channel": 1},
        "small": {"rows": 128, "cols": 512, "channel": 0},
        "large": {"rows": 4096, "cols": 1024, "channel": None},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large; compiled ones five.
        torch.float32: Tolerance(1e-6, 2.3e-6, "measured 7.5e-7, three times: sums of up to 4M terms, scaled"),
        torch.bfloat16: Tolerance(2**-7, 2.3e-6, "rounded once, half an ulp (2**-8) at most, margin of 2"),
        torch.float64: Tolerance(2e-15, 4.3e-15, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    once_differentiable=frozenset({"fused", "cpp"}),
    surrogate=fake_quantize,
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # inputs alone
)
