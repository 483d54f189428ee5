"""The linear recurrence with a compiled forward and a compiled backward, a few kernels each."""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from . import formula

forward = graph(formula.forward)


@graph
def backward(*arguments):
    return formula.backward(formula.scan, *arguments)


class LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(a, x, initial, reverse):
        formula.check(a, x, initial)
        return forward(a, x, initial, reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, initial, ctx.reverse = inputs
        ctx.save_for_backward(*formula.saved(ctx, a, initial, output))

    @staticmethod
    @refuse_double_backward("linear_scan (fused)")
    def backward(ctx, grad_h):
        return *backward(grad_h, *ctx.saved_tensors, ctx.reverse, ctx.needs_input_grad[:3]), None


apply = LinearScan.apply
