"""Fake quantisation with a compiled forward and a compiled backward. No mask is stored: it is recomputed from x."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from . import formula
from .inputs import check

forward, backward = graph(formula.forward), graph(formula.backward)


class FakeQuantize(torch.autograd.Function):
    @staticmethod
    def forward(x, step, quant_min, quant_max, channel):
        check(x, step, quant_min, quant_max, channel)
        return forward(x, step, (quant_min, quant_max, channel))

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, *options = inputs
        ctx.options = tuple(options)
        ctx.save_for_backward(x, step)

    @staticmethod
    @refuse_double_backward("fake_quantize (fused)")
    def backward(ctx, grad_output):
        grads = backward(grad_output, ctx.saved_tensors, ctx.options, ctx.needs_input_grad[:2])
        return *grads, None, None, None


def apply(x, step, quant_min, quant_max, channel=None):
    return FakeQuantize.apply(x, step, quant_min, quant_max, channel)
