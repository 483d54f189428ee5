"""Dropout as a torch.autograd.Function in PyTorch operations, whose backward draws the mask again."""

import torch

from .inputs import check
from .reference import dropout


class Dropout(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, p, seed):
        check(x, p, seed)
        return dropout(x, p, seed)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.p, ctx.seed = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return dropout(grad_output, ctx.p, ctx.seed), None, None


apply = Dropout.apply
