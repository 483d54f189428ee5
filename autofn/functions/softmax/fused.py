"""Softmax with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .inputs import check
from .python import gradient
from .reference import softmax

forward = graph(softmax)
backward = graph(gradient)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(x):
        check(x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    @refuse_double_backward("softmax (fused)")
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return backward(grad_output, y)


apply = Softmax.apply
