"""PyTorch's own function, by chunks of rows; it too computes the gradients in the forward and keeps them.

The chunks are as large as ours: of 32,000 words PyTorch would take 2 rows or 4 at a time.
"""

import torch
import torch.nn.functional as F

from autofn.refusal import refuse_double_backward

from . import chunked

if not hasattr(F, "linear_cross_entropy"):
    raise NotImplementedError(f"linear_cross_entropy (native): torch {torch.__version__} has no function for it")


class Once(torch.autograd.Function):
    """The tensor, differentiable once: to a second derivative PyTorch's gradients are constants, without a word."""

    @staticmethod
    def forward(tensor):
        return tensor.view_as(tensor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @refuse_double_backward("linear_cross_entropy (native)")
    def backward(ctx, grad_output):
        return grad_output


def apply(hidden, weight, target, ignore_index=-100, reduction="mean"):
    """`torch.nn.functional.linear_cross_entropy`; where all targets are ignored the mean's gradient is NaN."""
    # Else a second backward of one graph is refused, for the first one overwrites what is kept.
    options = torch.nn.LinearCrossEntropyOptions(
        allow_retain_graph=True, batch_chunk_size=chunked.size(weight.shape[0], hidden.device)
    )
    hidden, weight = (Once.apply(t) if t.requires_grad else t for t in (hidden, weight))
    return F.linear_cross_entropy(
        hidden, weight, target, reduction=reduction, ignore_index=ignore_index, options=options
    )
