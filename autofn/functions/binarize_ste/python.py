"""Straight-through binarisation as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require

from .reference import sign


class BinarizeSte(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, window):
        require.floating("binarize_ste", x=x)
        return sign(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.window = inputs
        if ctx.window:
            ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        if not ctx.window:
            return grad_output, None
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= 1, grad_output, 0), None


apply = BinarizeSte.apply
