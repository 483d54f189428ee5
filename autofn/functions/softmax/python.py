"""Softmax as a torch.autograd.Function in PyTorch operations. The forward is the reference's formula."""

import torch

from autofn.arithmetic import widened

from .inputs import check
from .reference import softmax


def gradient(grad_output, y):
    wide, grad = widened(y), widened(grad_output)
    return (wide * (grad - (grad * wide).sum(-1, keepdim=True))).to(y.dtype)


class Softmax(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        check(x)
        return softmax(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return gradient(grad_output, y)


apply = Softmax.apply
