"""Linear cross entropy as a torch.autograd.Function in PyTorch operations, by chunks of rows.

The gradients are computed in the forward, where the logits are, and kept.
"""

import torch

from autofn.refusal import refuse_double_backward

from . import rows
from .inputs import options


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(hidden, weight, target, options):
        return rows.forward(rows.part, hidden, weight, target, options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rows.setup_context(ctx, inputs, output)

    @staticmethod
    @refuse_double_backward("linear_cross_entropy (python)")
    def backward(ctx, grad_output, *_):
        return rows.backward(ctx, grad_output)


def apply(hidden, weight, target, ignore_index=-100, reduction="mean"):
    given = options(hidden, weight, ignore_index, reduction)
    return LinearCrossEntropy.apply(hidden, weight, target, given)[0]
