"""The linear layer with a compiled forward and a compiled backward: Inductor's matrix products, and one kernel for the
sum of the bias gradient."""

import torch

from autofn.compiled import column_sums, graph
from autofn.refusal import refuse_double_backward

from .inputs import check, rows_of


@graph
def forward(input, weight, bias):
    rows = rows_of(input)
    product = rows.mm(weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return product.reshape(*input.shape[:-1], weight.shape[0])


@graph
def backward(grad_output, input, weight, needs_bias):
    rows = rows_of(grad_output)
    grad_input = grad_weight = None
    if weight is not None:
        grad_input = rows.mm(weight).reshape(*grad_output.shape[:-1], weight.shape[1])
    if input is not None:
        grad_weight = rows.t().mm(rows_of(input))
    return grad_input, grad_weight, column_sums(rows) if needs_bias else None


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(input, weight, bias):
        check(input, weight, bias)
        return forward(input, weight, bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, _ = inputs
        needs_input, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)

    @staticmethod
    @refuse_double_backward("linear (fused)")
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        return backward(grad_output, input, weight, ctx.needs_input_grad[2])


def apply(input, weight, bias=None):
    return Linear.apply(input, weight, bias)
