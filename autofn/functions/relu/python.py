"""The rectified linear unit as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require


class Relu(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        require.floating("relu", x=x)
        return x.clamp(min=0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return torch.where(y <= 0, 0, grad_output)


apply = Relu.apply
