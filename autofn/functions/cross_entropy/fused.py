"""Cross entropy with a compiled forward and a compiled backward."""

import torch

from autofn.arithmetic import widened
from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from .inputs import check, gradient, gradients_of_losses, save_logsumexp, with_defaults
from .reference import cross_entropy


@graph
def forward(logits, target, weight, options):
    return cross_entropy(logits, target, weight, *options), widened(logits).logsumexp(1)


@graph
def backward(grad_output, logits, target, weight, logsumexp, options):
    grad = gradients_of_losses(grad_output, target, weight, options)
    p = torch.exp(widened(logits) - logsumexp[:, None])
    return gradient(p, grad, target, weight, options).to(logits.dtype)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(logits, target, weight, options):
        check(logits, target, weight, options)
        return forward(logits, target, weight, options)

    setup_context = staticmethod(save_logsumexp)

    @staticmethod
    @refuse_double_backward("cross_entropy (fused)")
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None, None
        return backward(grad_output, *ctx.saved_tensors, ctx.options), None, None, None


apply = with_defaults(lambda *args: CrossEntropy.apply(*args)[0])
