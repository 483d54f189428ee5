"""The linear layer as a torch.autograd.Function in PyTorch operations."""

import torch

from .inputs import check, rows_of


class Linear(torch.autograd.Function):
    @staticmethod
    def forward(input, weight, bias):
        check(input, weight, bias)
        rows = rows_of(input)
        product = rows.mm(weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
        return product.reshape(*input.shape[:-1], weight.shape[0])

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, _ = inputs
        needs_input, needs_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(input if needs_weight else None, weight if needs_input else None)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        rows = rows_of(grad_output)
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = rows.mm(weight).reshape(*grad_output.shape[:-1], weight.shape[1])
        if ctx.needs_input_grad[1]:
            grad_weight = rows.t().mm(rows_of(input))
        if ctx.needs_input_grad[2]:
            grad_bias = rows.sum(0)
        return grad_input, grad_weight, grad_bias


def apply(input, weight, bias=None):
    return Linear.apply(input, weight, bias)
