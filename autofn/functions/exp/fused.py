"""The exponential with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward


@graph
def forward(x):
    return torch.exp(x)


@graph
def backward(grad_output, y):
    return grad_output * y


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        require.floating("exp", x=x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("exp (fused)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return backward(grad_output, y)


apply = Exp.apply
