"""Rotary position embedding as a torch.autograd.Function in PyTorch operations."""

import torch

from . import formula


class Rope(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, cos, sin, interleaved, opposite):
        formula.check(x, cos, sin)
        return formula.turn(x, cos, sin, interleaved, opposite)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin, ctx.interleaved, ctx.opposite = inputs
        formula.refuse_gradients_of_tables(ctx)
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, grad_output):
        grad_x = Rope.apply(grad_output, *ctx.saved_tensors, ctx.interleaved, not ctx.opposite)
        return grad_x, None, None, None, None


def apply(x, cos, sin, interleaved):
    return Rope.apply(x, cos, sin, interleaved, False)
