"""The linear recurrence by Triton kernels, one a pass; float64 stays float64, half types are carried in float32.

A program walks along time with 32 channels of one element of the batch, one for each thread of a warp: there are no
more threads than channels, and they should keep all multiprocessors busy.
"""

import torch
import triton
import triton.language as tl

from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import for_dtypes, launch, widened

from . import formula

CHANNELS = 32
NUM_WARPS = 1


@triton.jit
def place(time, channels, from_the_end: tl.constexpr, CHANNELS: tl.constexpr):
    """Where a program's channels are in a state and where at one end of time, (CHANNELS,), and which of them exist."""
    element = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1).to(tl.int64) * CHANNELS + tl.arange(0, CHANNELS)
    row = (element + 1) * time - 1 if from_the_end else element * time
    return element * channels + channel, row * channels + channel, channel < channels


@triton.jit
def linear_scan_forward_kernel(h, a, x, initial, time, channels, reverse: tl.constexpr, CHANNELS: tl.constexpr):
    in_state, at, inside = place(time, channels, reverse, CHANNELS)
    stride = -channels if reverse else channels
    state = widened(tl.load(initial + in_state, mask=inside))  # (CHANNELS,)
    for _ in range(time):
        coefficient = widened(tl.load(a + at, mask=inside))  # (CHANNELS,)
        state = coefficient * state + widened(tl.load(x + at, mask=inside))  # (CHANNELS,)
        tl.store(h + at, state, mask=inside)
        at += stride


# From the last step taken to the first. grad_a or grad_x is None where it is not needed; initial and h are read for
# grad_a only.
@triton.jit
def linear_scan_backward_kernel(
    grad_a,
    grad_x,
    grad_initial,
    grad_h,
    a,
    initial,
    h,
    time,
    channels,
    reverse: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    in_state, at, inside = place(time, channels, not reverse, CHANNELS)
    stride = channels if reverse else -channels
    # a * g of the step after.
    carried = widened(tl.load(a + at, mask=inside)) * 0  # (CHANNELS,)
    for left in range(time, 0, -1):
        g = widened(tl.load(grad_h + at, mask=inside)) + carried  # (CHANNELS,)
        carried = widened(tl.load(a + at, mask=inside)) * g  # (CHANNELS,)
        if grad_x is not None:
            tl.store(grad_x + at, g, mask=inside)
        if grad_a is not None:
            before = h + at + stride if left > 1 else initial + in_state
            tl.store(grad_a + at, g * widened(tl.load(before, mask=inside)), mask=inside)  # (CHANNELS,)
        at += stride
    tl.store(grad_initial + in_state, carried, mask=inside)


def walk(kernel, *args, like, reverse):
    """Launches `kernel(*args, time, channels, reverse, CHANNELS)` over the channels of `like`."""
    batch, time, channels = like.shape
    grid = batch, triton.cdiv(channels, CHANNELS)
    launch(kernel, grid, *args, time, channels, reverse, CHANNELS=CHANNELS, num_warps=NUM_WARPS)


class LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(a, x, initial, reverse):
        formula.check(a, x, initial)
        a, x, initial = a.contiguous(), x.contiguous(), initial.contiguous()
        h = torch.empty_like(x)
        walk(linear_scan_forward_kernel, h, a, x, initial, like=a, reverse=reverse)
        return h

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, initial, ctx.reverse = inputs
        ctx.save_for_backward(*formula.saved(ctx, a, initial, output))

    @staticmethod
    @refuse_double_backward("linear_scan (triton)")
    def backward(ctx, grad_h):
        a, initial, h = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        needs_a, needs_x, _, _ = ctx.needs_input_grad
        grad_a, grad_x = (torch.empty_like(a) if needed else None for needed in (needs_a, needs_x))
        grad_initial = a.new_empty(a.shape[0], a.shape[2])
        tensors = grad_a, grad_x, grad_initial, grad_h.contiguous(), a, initial, h
        walk(linear_scan_backward_kernel, *tensors, like=a, reverse=ctx.reverse)
        return grad_a, grad_x, grad_initial, None


apply = LinearScan.apply

KERNELS = [
    kernel
    for reverse in (False, True)
    for kernel in (
        *for_dtypes(
            linear_scan_forward_kernel,
            "*T *T *T *T i64 i64",
            num_warps=NUM_WARPS,
            reverse=reverse,
            CHANNELS=CHANNELS,
        ),
        *for_dtypes(
            linear_scan_backward_kernel,
            "*T *T *T *T *T *T *T i64 i64",
            num_warps=NUM_WARPS,
            reverse=reverse,
            CHANNELS=CHANNELS,
        ),
    )
]
