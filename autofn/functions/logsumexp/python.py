"""The logarithm of summed exponentials as a torch.autograd.Function in PyTorch operations.

The forward is the reference's formula. The softmax is computed from x: with a sum that was saved it would be a constant
to the second derivative, and that silently wrong.
"""

import torch

from autofn.arithmetic import widened

from .inputs import check, shifted
from .reference import logsumexp


def softmax(x):
    """exp(x - y), from x alone; 0 in a fully masked row."""
    if x.shape[-1] == 0:
        return widened(x)
    exponentials, largest = shifted(x)
    return exponentials / torch.where(largest.isinf(), 1, exponentials.sum(-1, keepdim=True))


class LogSumExp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        check(x)
        return logsumexp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return (widened(grad_output).unsqueeze(-1) * softmax(x)).to(x.dtype)


apply = LogSumExp.apply
