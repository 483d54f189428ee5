"""Clipped ReLU as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require


class ClippedRelu(torch.autograd.Function):
    @staticmethod
    def forward(x, clip):
        require.floating("clipped_relu", x=x)
        require.above_zero("clipped_relu", clip=clip)
        return x.clamp(0, clip)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.clip = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return torch.where((y > 0) & (y < ctx.clip), grad_output, 0), None


apply = ClippedRelu.apply
