"""The linear recurrence as a torch.autograd.Function in PyTorch operations; its backward is a recurrence, so itself."""

import torch

from . import formula


class LinearScan(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(a, x, initial, reverse):
        formula.check(a, x, initial)
        return formula.forward(a, x, initial, reverse)

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, _, initial, ctx.reverse = inputs
        ctx.save_for_backward(*formula.saved(ctx, a, initial, output))

    @staticmethod
    def backward(ctx, grad_h):
        needed = ctx.needs_input_grad[:3]
        return *formula.backward(LinearScan.apply, grad_h, *ctx.saved_tensors, ctx.reverse, needed), None


apply = LinearScan.apply
