"""The Euclidean norm as a torch.autograd.Function in PyTorch operations. The forward is the reference's formula."""

import torch

from autofn.arithmetic import widened

from .inputs import check
from .reference import norm


def gradient(grad_output, x, y):
    wide, length = widened(x), widened(y).unsqueeze(-1)
    zero = length == 0
    # Masked outside too, so that the second derivative at 0 is 0.
    direction = torch.where(zero, 0, wide / torch.where(zero, 1, length))
    return (widened(grad_output).unsqueeze(-1) * direction).to(x.dtype)


class Norm(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        check(x)
        return norm(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        return gradient(grad_output, *ctx.saved_tensors)


apply = Norm.apply
