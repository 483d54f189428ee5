"""Straight-through rounding as a torch.autograd.Function in PyTorch operations."""

import torch

from autofn import require


class RoundSte(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        require.floating("round_ste", x=x)
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output


apply = RoundSte.apply
