"""The Euclidean norm with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .inputs import check
from .python import gradient
from .reference import norm

forward = graph(norm)
backward = graph(gradient)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(x):
        check(x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    @refuse_double_backward("norm (fused)")
    def backward(ctx, grad_output):
        return backward(grad_output, *ctx.saved_tensors)


apply = Norm.apply
