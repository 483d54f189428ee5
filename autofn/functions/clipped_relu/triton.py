"""Clipped ReLU by Triton kernels, one a pass; float64 stays float64, half types are compared in float32."""

import torch
import triton
import triton.language as tl

from autofn import require
from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, elements, for_dtypes, map_elements, number, widened

from .inputs import rounded


@triton.jit
def clipped_relu_forward_kernel(y, x, clip: tl.float64, n, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    v = widened(tl.load(x + i, mask=inside))  # (BLOCK,)
    high = number(clip, v)
    # Comparisons that are false for NaN, so that NaN stays.
    tl.store(y + i, tl.where(v < 0, 0, tl.where(v > high, high, v)), mask=inside)


# clip: as y holds it, rounded to its dtype.
@triton.jit
def clipped_relu_backward_kernel(grad_x, grad_output, y, clip: tl.float64, n, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    g = widened(tl.load(grad_output + i, mask=inside))  # (BLOCK,)
    v = widened(tl.load(y + i, mask=inside))  # (BLOCK,)
    tl.store(grad_x + i, tl.where((v > 0) & (v < number(clip, v)), g, 0), mask=inside)


class ClippedRelu(torch.autograd.Function):
    @staticmethod
    def forward(x, clip):
        require.floating("clipped_relu", x=x)
        require.above_zero("clipped_relu", clip=clip)
        x = x.contiguous()
        y = torch.empty_like(x)
        map_elements(clipped_relu_forward_kernel, y, x, float(clip))
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.clip = rounded(inputs[1], output.dtype)
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("clipped_relu (triton)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        grad_x = torch.empty_like(y)
        map_elements(clipped_relu_backward_kernel, grad_x, grad_output.contiguous(), y, float(ctx.clip))
        return grad_x, None


apply = ClippedRelu.apply

KERNELS = [
    *for_dtypes(clipped_relu_forward_kernel, "*T *T fp64 i64", BLOCK=BLOCK),
    *for_dtypes(clipped_relu_backward_kernel, "*T *T *T fp64 i64", BLOCK=BLOCK),
]
