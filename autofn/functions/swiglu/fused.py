"""The SwiGLU gate with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from . import formula

forward = graph(formula.forward)
backward = graph(formula.backward)


class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(gate, up):
        formula.check(gate, up)
        return forward(gate, up)

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up = inputs
        ctx.save_for_backward(gate, up if ctx.needs_input_grad[0] else None)

    @staticmethod
    @refuse_double_backward("swiglu (fused)")
    def backward(ctx, grad_output):
        gate, up = ctx.saved_tensors
        return backward(grad_output, gate, up, ctx.needs_input_grad[1])


apply = Swiglu.apply
