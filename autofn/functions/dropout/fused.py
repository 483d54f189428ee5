"""Dropout compiled, one kernel. The backward is the Function itself, of grad_output: it draws the mask again."""

import torch

from autofn.compiled import graph

from .inputs import check
from .reference import dropout

forward = graph(dropout)


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(x, p, seed):
        check(x, p, seed)
        return forward(x, p, seed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.p, ctx.seed = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return Dropout.apply(grad_output, ctx.p, ctx.seed), None, None


apply = Dropout.apply
