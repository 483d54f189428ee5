"""Gradient reversal as a torch.autograd.Function whose output is a view of its input."""

import torch

from autofn import require


class GradientReversal(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, strength):
        require.floating("gradient_reversal", x=x)
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.strength = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * -ctx.strength, None


apply = GradientReversal.apply
