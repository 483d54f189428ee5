"""Layer normalisation as a torch.autograd.Function in PyTorch operations.

Mean and inverse are recomputed from x: saved, they would be constants to the second derivative, and that silently
wrong.
"""

import torch

from autofn.arithmetic import widened

from .inputs import check, needed
from .reference import layer_norm


def normalised(x, eps):
    """z, and the inverse standard deviation."""
    wide = widened(x)
    centred = wide - wide.mean(-1, keepdim=True)
    inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * inverse, inverse


class LayerNorm(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, bias, eps):
        check(x, weight, bias, eps)
        return layer_norm(x, weight, bias, eps)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _, ctx.eps = inputs
        ctx.save_for_backward(*needed(ctx.needs_input_grad, x, weight))

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad = widened(grad_output)
        features, dtype = grad.shape[-1], grad_output.dtype
        grad_x = grad_weight = grad_bias = None
        if x is not None:
            z, inverse = normalised(x, ctx.eps)
        if ctx.needs_input_grad[0]:
            scaled = grad * weight
            along_z = (scaled * z).mean(-1, keepdim=True)
            grad_x = (inverse * (scaled - scaled.mean(-1, keepdim=True) - z * along_z)).to(dtype)
        if ctx.needs_input_grad[1]:
            grad_weight = (grad * z).sum_to_size(features).to(dtype)
        if ctx.needs_input_grad[2]:
            grad_bias = grad.sum_to_size(features).to(dtype)
        return grad_x, grad_weight, grad_bias, None


apply = LayerNorm.apply
