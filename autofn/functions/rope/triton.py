"""Rotary position embedding by one Triton kernel; float64 stays float64, half types are computed in float32.

A row is a list of items: its pairs, then the features that have no angle, one by one. A program takes 1,024 items, of
several rows where they are short.
"""

import torch
import triton
import triton.language as tl

from autofn.triton_kernels import BLOCK, elements, for_dtypes, launch, widened

from . import formula


@triton.jit
def rope_kernel(
    y,
    x,
    cos,
    sin,
    items,
    positions,
    features,
    pairs,
    interleaved: tl.constexpr,
    opposite: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i, inside = elements(items, BLOCK)
    row = i // (features - pairs)
    item = i % (features - pairs)
    has_angle = inside & (item < pairs)
    first = row * features + (2 * item if interleaved else item)
    second = first + (1 if interleaved else pairs)
    angle = row % positions * pairs + item
    a = widened(tl.load(x + first, mask=has_angle))  # (BLOCK,)
    b = widened(tl.load(x + second, mask=has_angle))  # (BLOCK,)
    along = widened(tl.load(cos + angle, mask=has_angle))  # (BLOCK,)
    across = widened(tl.load(sin + angle, mask=has_angle))  # (BLOCK,)
    if opposite:
        across = -across
    tl.store(y + first, a * along - b * across, mask=has_angle)
    tl.store(y + second, b * along + a * across, mask=has_angle)
    rest = row * features + pairs + item
    passes = inside & (item >= pairs)
    tl.store(y + rest, tl.load(x + rest, mask=passes), mask=passes)  # (BLOCK,)


def turn(x, cos, sin, interleaved, opposite):
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    y = torch.empty_like(x)
    positions, features = x.shape[-2:]
    pairs = cos.shape[1]
    items = x.numel() // max(1, features) * (features - pairs)
    sizes = items, positions, features, pairs
    launch(rope_kernel, (triton.cdiv(items, BLOCK),), y, x, cos, sin, *sizes, interleaved, opposite, BLOCK=BLOCK)
    return y


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(x, cos, sin, interleaved, opposite):
        formula.check(x, cos, sin)
        return turn(x, cos, sin, interleaved, opposite)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin, ctx.interleaved, ctx.opposite = inputs
        formula.refuse_gradients_of_tables(ctx)
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = Rope.apply(grad_output, *ctx.saved_tensors, ctx.interleaved, not ctx.opposite)
        return grad_x, None, None, None, None


def apply(x, cos, sin, interleaved):
    return Rope.apply(x, cos, sin, interleaved, False)


KERNELS = [
    kernel
    for interleaved in (False, True)
    for opposite in (False, True)
    for kernel in for_dtypes(
        rope_kernel, "*T *T *T *T i64 i64 i64 i64", interleaved=interleaved, opposite=opposite, BLOCK=BLOCK
    )
]
