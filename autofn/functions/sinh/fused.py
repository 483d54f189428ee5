"""The hyperbolic sine with a compiled forward and a compiled backward, one kernel each, which saves the output."""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward


@graph
def forward(x):
    return (torch.exp(x) - torch.exp(-x)) / 2


@graph
def backward(grad_output, y):
    # The square overflows where the root does not; there 1 + abs(y) is the same number, elsewhere it is larger.
    return grad_output * torch.minimum(torch.sqrt(1 + y * y), 1 + y.abs())


class Sinh(torch.autograd.Function):
    @staticmethod
    def forward(x):
        require.floating("sinh", x=x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("sinh (fused)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return backward(grad_output, y)


apply = Sinh.apply
