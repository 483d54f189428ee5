"""Root-mean-square normalisation with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.arithmetic import widened
from autofn.compiled import column_sums, graph
from autofn.refusal import refuse_double_backward

from .inputs import check, save_inverse


@graph
def forward(x, weight, eps):
    wide = widened(x)
    inverse = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * inverse * weight).to(x.dtype), inverse


@graph
def backward(grad_output, x, weight, inverse, needs_weight):
    wide, grad = widened(x), widened(grad_output)
    grad_x = grad_weight = None
    if weight is not None:
        scaled = grad * weight
        mean = (scaled * wide).mean(-1, keepdim=True)
        grad_x = (inverse * (scaled - wide * inverse.square() * mean)).to(x.dtype)
    if needs_weight:
        grad_weight = column_sums(grad * wide * inverse).to(x.dtype)
    return grad_x, grad_weight


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps):
        check(x, weight, eps)
        return forward(x, weight, eps)

    setup_context = staticmethod(save_inverse)

    @staticmethod
    @refuse_double_backward("rms_norm (fused)")
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None
        x, weight, inverse = ctx.saved_tensors
        return *backward(grad_output, x, weight, inverse, ctx.needs_input_grad[1]), None


def apply(x, weight, eps):
    return RmsNorm.apply(x, weight, eps)[0]
