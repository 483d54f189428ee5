"""The GEGLU gate as a torch.autograd.Function in PyTorch operations."""

import torch

from . import formula


class Geglu(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(gate, up, approximate):
        formula.check(gate, up, approximate)
        return formula.forward(gate, up, approximate)

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up, ctx.approximate = inputs
        ctx.save_for_backward(gate, up if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx, grad_output):
        gate, up = ctx.saved_tensors
        return *formula.backward(grad_output, gate, up, ctx.approximate, ctx.needs_input_grad[1]), None


apply = Geglu.apply
