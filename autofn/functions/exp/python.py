"""The exponential as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        require.floating("exp", x=x)
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y


apply = Exp.apply
