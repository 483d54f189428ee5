"""The GEGLU gate with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from . import formula

forward = graph(formula.forward)
backward = graph(formula.backward)


class Geglu(torch.autograd.Function):
    @staticmethod
    def forward(gate, up, approximate):
        formula.check(gate, up, approximate)
        return forward(gate, up, approximate)

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up, ctx.approximate = inputs
        ctx.save_for_backward(gate, up if ctx.needs_input_grad[0] else None)

    @staticmethod
    @refuse_double_backward("geglu (fused)")
    def backward(ctx, grad_output):
        gate, up = ctx.saved_tensors
        return *backward(grad_output, gate, up, ctx.approximate, ctx.needs_input_grad[1]), None


apply = Geglu.apply
