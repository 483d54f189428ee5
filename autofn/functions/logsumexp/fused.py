"""The logarithm of summed exponentials with a compiled forward and a compiled backward, one kernel each."""

import math

import torch

from autofn.arithmetic import widened
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .inputs import check, shifted


@graph
def forward(x):
    """y, and one over each row's sum, or 1 where its largest is infinite."""
    if x.shape[-1] == 0:
        return x.new_full(x.shape[:-1], -math.inf), widened(x.new_ones((*x.shape[:-1], 1)))
    exponentials, largest = shifted(x)
    sums = exponentials.sum(-1, keepdim=True)
    infinite = largest.isinf()
    y = torch.where(infinite, largest, largest + sums.log())
    return y.squeeze(-1).to(x.dtype), torch.where(infinite, 1, 1 / sums)


@graph
def backward(grad_output, x, inverse):
    if x.shape[-1] == 0:
        return torch.zeros_like(x)
    exponentials, _ = shifted(x)
    return (widened(grad_output).unsqueeze(-1) * inverse * exponentials).to(x.dtype)


class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        check(x)
        return forward(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, inverse = output
        ctx.mark_non_differentiable(inverse)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, inverse)

    @staticmethod
    @refuse_double_backward("logsumexp (fused)")
    def backward(ctx, grad_output, _):
        return None if grad_output is None else backward(grad_output, *ctx.saved_tensors)


def apply(x):
    return LogSumExp.apply(x)[0]
