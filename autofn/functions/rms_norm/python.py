"""Root-mean-square normalisation as a torch.autograd.Function in PyTorch operations.

The inverse is recomputed from x: saved, it would be a constant to the second derivative, and that silently wrong.
"""

import torch

from autofn.arithmetic import widened

from .inputs import check


def inverse_rms(wide, eps):
    return torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps):
        check(x, weight, eps)
        wide = widened(x)
        return (wide * inverse_rms(wide, eps) * weight).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight if ctx.needs_input_grad[0] else None)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        wide, grad = widened(x), widened(grad_output)
        inverse = inverse_rms(wide, ctx.eps)
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            scaled = grad * weight
            mean = (scaled * wide).mean(-1, keepdim=True)
            grad_x = (inverse * (scaled - wide * inverse.square() * mean)).to(x.dtype)
        if ctx.needs_input_grad[1]:
            grad_weight = (grad * wide * inverse).sum_to_size(x.shape[-1]).to(x.dtype)
        return grad_x, grad_weight, None


apply = RmsNorm.apply
