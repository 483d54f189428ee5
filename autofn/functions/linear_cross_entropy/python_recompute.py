"""Linear cross entropy as a torch.autograd.Function in PyTorch operations, by chunks of the vocabulary.

The forward keeps the logarithm of each row's sum, and the backward computes the logits again. Each row of weight is
read once a pass, and its gradient is written once.
"""

import math

import torch

from autofn.arithmetic import wide_dtype, widened
from autofn.refusal import refuse_double_backward

from .chunked import add_product, chunks, factors, reduced
from .inputs import check, options


def in_chunk(target, chunk):
    """The targets counted from the chunk's first word, and which of them lie in it."""
    inside = (target >= chunk.start) & (target < chunk.stop)
    return torch.where(inside, target - chunk.start, 0)[:, None], inside


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(hidden, weight, target, options):
        check(hidden, weight, target, options)
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        # In float64: it is rounded with each chunk, and an error of it is one of all probabilities.
        running = hidden.new_full((rows,), -math.inf, dtype=torch.float64)
        chosen = hidden.new_full((rows,), math.nan, dtype=wide_dtype(hidden))
        for chunk in chunks(vocabulary, rows, hidden.device):
            logits = widened(hidden @ weight[chunk].t())
            place, inside = in_chunk(target, chunk)
            running = torch.logaddexp(running, logits.logsumexp(1))
            chosen = torch.where(inside, logits.gather(1, place).squeeze(1), chosen)
        logsumexp = running.to(chosen.dtype)
        return reduced(logsumexp - chosen, target, options).to(hidden.dtype), logsumexp

    @staticmethod
    def setup_context(ctx, inputs, output):
        hidden, weight, target, ctx.options = inputs
        _, logsumexp = output
        ctx.mark_non_differentiable(logsumexp)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden, weight, target, logsumexp)

    @staticmethod
    @refuse_double_backward("linear_cross_entropy (python_recompute)")
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None, None
        hidden, weight, target, logsumexp = ctx.saved_tensors
        rows, vocabulary = hidden.shape[0], weight.shape[0]
        needs_hidden, needs_weight, *_ = ctx.needs_input_grad
        # In float32 for half types: each chunk of the vocabulary adds to it.
        sums = torch.zeros_like(hidden, dtype=wide_dtype(hidden)) if needs_hidden else None
        grad_weight = torch.empty_like(weight) if needs_weight else None
        factor = factors(target, ctx.options, wide_dtype(hidden))[:, None] * grad_output
        for chunk in chunks(vocabulary, rows, hidden.device):
            place, inside = in_chunk(target, chunk)
            p = widened(hidden @ weight[chunk].t()).sub_(logsumexp[:, None]).exp_().mul_(factor)
            p.scatter_add_(1, place, torch.where(inside[:, None], -factor, 0))
            grad = p.to(hidden.dtype)
            if sums is not None:
                add_product(sums, grad, weight[chunk])
            if grad_weight is not None:
                torch.mm(grad.t(), hidden, out=grad_weight[chunk])
        return None if sums is None else sums.to(hidden.dtype), grad_weight, None, None


def apply(hidden, weight, target, ignore_index=-100, reduction="mean"):
    given = options(hidden, weight, ignore_index, reduction)
    return LinearCrossEntropy.apply(hidden, weight, target, given)[0]
