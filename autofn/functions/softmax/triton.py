"""Softmax by Triton kernels, one a pass and one program a row; float64 stays float64, half types become float32.

A row is walked in blocks of 1,024 elements, whatever its length: what is read again comes from the caches.
"""

import torch
import triton
import triton.language as tl

from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, for_dtypes, load_block, map_rows

from .inputs import check


@triton.jit
def softmax_forward_kernel(y, x, features, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * features
    x += first
    y += first
    # A maximum may pass over a NaN: its exponential is NaN in any case, and so is the sum.
    largest = load_block(x, 0, features, float("-inf"), BLOCK)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        largest = tl.maximum(largest, load_block(x, start, features, float("-inf"), BLOCK))
    shift = tl.max(largest, 0)
    shift = tl.where(shift == float("-inf"), 0, shift)
    sums = tl.exp(load_block(x, 0, features, float("-inf"), BLOCK) - shift)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        sums += tl.exp(load_block(x, start, features, float("-inf"), BLOCK) - shift)
    total = tl.sum(sums, 0)
    # The sum is at least 1, but for a masked row.
    factor = tl.where(total == 0, 0, 1 / total)
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = load_block(x, start, features, float("-inf"), BLOCK)  # (BLOCK,)
        tl.store(y + i, tl.exp(v - shift) * factor, mask=i < features)


@triton.jit
def softmax_backward_kernel(grad_x, grad_output, y, features, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * features
    grad_x += first
    grad_output += first
    y += first
    sums = load_block(grad_output, 0, features, 0, BLOCK) * load_block(y, 0, features, 0, BLOCK)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        sums += load_block(grad_output, start, features, 0, BLOCK) * load_block(y, start, features, 0, BLOCK)
    dot = tl.sum(sums, 0)
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        g = load_block(grad_output, start, features, 0, BLOCK)  # (BLOCK,)
        p = load_block(y, start, features, 0, BLOCK)  # (BLOCK,)
        tl.store(grad_x + i, p * (g - dot), mask=i < features)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(x):
        check(x)
        x = x.contiguous()
        y = torch.empty_like(x)
        map_rows(softmax_forward_kernel, y, x)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("softmax (triton)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_x = torch.empty_like(y)
        map_rows(softmax_backward_kernel, grad_x, grad_output.contiguous(), y)
        return grad_x


apply = Softmax.apply

KERNELS = [
    *for_dtypes(softmax_forward_kernel, "*T *T i64", BLOCK=BLOCK),
    *for_dtypes(softmax_backward_kernel, "*T *T *T i64", BLOCK=BLOCK),
]
