"""Clipped ReLU with a compiled forward and a compiled backward. The mask is recomputed from y inside the kernel."""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .inputs import rounded


@graph
def forward(x, clip):
    return x.clamp(0, clip)


@graph
def backward(grad_output, y, clip):
    # One comparison for both corners: with two the CPU kernel takes twice as long.
    return torch.where(torch.minimum(y, clip - y) > 0, grad_output, 0)


class ClippedRelu(torch.autograd.Function):
    @staticmethod
    def forward(x, clip):
        require.floating("clipped_relu", x=x)
        require.above_zero("clipped_relu", clip=clip)
        return forward(x, clip)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.clip = rounded(inputs[1], output.dtype)
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("clipped_relu (fused)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return backward(grad_output, y, ctx.clip), None


apply = ClippedRelu.apply
