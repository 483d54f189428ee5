"""A product with a constant as a torch.autograd.Function with a setup_context of its own."""

import torch

from autofn import require


class MulConstant(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, constant):
        require.floating("mul_constant", x=x)
        return x * constant

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.constant = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.constant, None

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.constant


apply = MulConstant.apply
