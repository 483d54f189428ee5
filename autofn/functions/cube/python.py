"""The cube as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        require.floating("cube", x=x)
        return x * x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x * (3 * x)


apply = Cube.apply
