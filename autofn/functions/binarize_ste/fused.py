"""Straight-through binarisation with a compiled forward and, with window, a compiled backward.

The mask of the window is recomputed from x inside the kernel.
"""

import torch

from autofn import require
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .reference import sign


@graph
def forward(x):
    return sign(x)


@graph
def masked(grad_output, x):
    return torch.where(x.abs() <= 1, grad_output, 0)


@refuse_double_backward("binarize_ste (fused)")
def windowed_backward(ctx, grad_output):
    (x,) = ctx.saved_tensors
    return masked(grad_output, x), None


class BinarizeSte(torch.autograd.Function):
    @staticmethod
    def forward(x, window):
        require.floating("binarize_ste", x=x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.window = inputs
        if ctx.window:
            ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        return windowed_backward(ctx, grad_output) if ctx.window else (grad_output, None)


apply = BinarizeSte.apply
