"""Fake quantisation as a torch.autograd.Function in PyTorch operations."""

import torch

from . import formula
from .inputs import check


class FakeQuantize(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, step, quant_min, quant_max, channel):
        check(x, step, quant_min, quant_max, channel)
        return formula.forward(x, step, (quant_min, quant_max, channel))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, *options = inputs
        ctx.options = tuple(options)
        ctx.save_for_backward(x, step)

    @staticmethod
    def backward(ctx, grad_output):
        grads = formula.backward(grad_output, ctx.saved_tensors, ctx.options, ctx.needs_input_grad[:2])
        return *grads, None, None, None


def apply(x, step, quant_min, quant_max, channel=None):
    return FakeQuantize.apply(x, step, quant_min, quant_max, channel)
