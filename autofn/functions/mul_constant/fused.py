"""A product with a constant, forward and backward by one compiled kernel.

The backward is the Function itself, so it is differentiable any number of times.
"""

import torch

from autofn import require
from autofn.compiled import graph


@graph
def product(x, constant):
    return x * constant


class MulConstant(torch.autograd.Function):
    @staticmethod
    def forward(x, constant):
        require.floating("mul_constant", x=x)
        return product(x, constant)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.constant = inputs[1]

    @staticmethod
    def backward(ctx, grad_output):
        return MulConstant.apply(grad_output, ctx.constant), None


apply = MulConstant.apply
