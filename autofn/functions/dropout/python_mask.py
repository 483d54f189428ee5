"""Dropout as a torch.autograd.Function in PyTorch operations that keeps the mask, one bit an element."""

import torch

from .inputs import check
from .mask import kept, packed, unpacked


class Dropout(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, p, seed):
        check(x, p, seed)
        keep = kept(x, p, seed)
        return torch.where(keep, x * (1 / (1 - p)), 0), packed(keep)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.p, _ = inputs
        _, mask = output
        ctx.mark_non_differentiable(mask)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(mask)

    @staticmethod
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None
        (mask,) = ctx.saved_tensors
        keep = unpacked(mask, grad_output.shape)
        return torch.where(keep, grad_output * (1 / (1 - ctx.p)), 0), None, None


def apply(x, p, seed):
    return Dropout.apply(x, p, seed)[0]
