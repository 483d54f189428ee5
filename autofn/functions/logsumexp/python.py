"""The logarithm of summed exponentials as a torch.autograd.Function in PyTorch operations.

The forward is the reference's formula.
"""

import torch

from .inputs import check, shift_of, widened
from .reference import logsumexp


def gradient(grad_output, x, y):
    softmax = torch.exp(widened(x) - shift_of(widened(y)))
    return (widened(grad_output).unsqueeze(-1) * softmax).to(x.dtype)


class LogSumExp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        check(x)
        return logsumexp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad_output):
        return gradient(grad_output, *ctx.saved_tensors)


apply = LogSumExp.apply
