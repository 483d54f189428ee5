"""Linear cross entropy by chunks of rows, where what lies between the products is one compiled graph.

The loop over the chunks is not compiled: as many times unrolled as there are chunks, it would be compiled anew for
each number of rows.
"""

import torch

from autofn.compiled import graph
from autofn.refusal import refuse_double_backward

from . import rows
from .inputs import options

part = graph(rows.part)


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(hidden, weight, target, options):
        return rows.forward(part, hidden, weight, target, options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rows.setup_context(ctx, inputs, output)

    @staticmethod
    @refuse_double_backward("linear_cross_entropy (fused)")
    def backward(ctx, grad_output, *_):
        return rows.backward(ctx, grad_output)


def apply(hidden, weight, target, ignore_index=-100, reduction="mean"):
    given = options(hidden, weight, ignore_index, reduction)
    return LinearCrossEntropy.apply(hidden, weight, target, given)[0]
