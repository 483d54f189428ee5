"""The cube with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward


@graph
def forward(x):
    return x * x * x


@graph
def backward(grad_output, x):
    return grad_output * x * (3 * x)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        require.floating("cube", x=x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @refuse_double_backward("cube (fused)")
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return backward(grad_output, x)


apply = Cube.apply
