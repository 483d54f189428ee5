"""Clipped ReLU with a compiled forward and a compiled backward. The mask is recomputed from y inside the kernel."""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward


@graph
def forward(x, clip):
    return x.clamp(0, clip)


@graph
def backward(grad_output, y, clip):
    # One comparison for both corners: with two the CPU kernel takes twice as long.
    return torch.where(torch.minimum(y, clip - y) > 0, grad_output, 0)


def rounded(clip, dtype):
    """The corner as y holds it: compiled code compares in float32, where bfloat16's 5.7 is below 5.7."""
    return clip if dtype.itemsize > 2 else torch.tensor(clip, dtype=dtype).item()


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
