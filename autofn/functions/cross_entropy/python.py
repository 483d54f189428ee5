"""Cross entropy as a torch.autograd.Function in PyTorch operations.

The probabilities are recomputed from logits: from a saved logarithm of their sum they would have another derivative.
"""

import torch

from autofn.arithmetic import widened

from .inputs import check, gradient, gradients_of_losses, with_defaults
from .reference import cross_entropy


class CrossEntropy(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(logits, target, weight, options):
        check(logits, target, weight, options)
        return cross_entropy(logits, target, weight, *options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.options = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad_output):
        logits, target, weight = ctx.saved_tensors
        grad = gradients_of_losses(grad_output, target, weight, ctx.options)
        p = torch.softmax(widened(logits), 1)
        return gradient(p, grad, target, weight, ctx.options).to(logits.dtype), None, None, None


apply = with_defaults(CrossEntropy.apply)
