"""Layer normalisation with a compiled forward and a compiled backward, one kernel each."""

import torch

from autofn.arithmetic import widened
from autofn.compiled import column_sums, graph
from autofn.refusal import refuse_double_backward

from .inputs import check, save_moments


@graph
def forward(x, weight, bias, eps):
    wide = widened(x)
    mean = wide.mean(-1, keepdim=True)
    centred = wide - mean
    inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (centred * inverse * weight + bias).to(x.dtype), mean, inverse


@graph
def backward(grad_output, x, weight, mean, inverse, needs):
    grad, dtype = widened(grad_output), grad_output.dtype
    needs_x, needs_weight, needs_bias = needs
    grad_x = grad_weight = grad_bias = None
    if x is not None:
        z = (widened(x) - mean) * inverse
    if needs_x:
        scaled = grad * weight
        along_z = (scaled * z).mean(-1, keepdim=True)
        grad_x = (inverse * (scaled - scaled.mean(-1, keepdim=True) - z * along_z)).to(dtype)
    if needs_weight:
        grad_weight = column_sums(grad * z).to(dtype)
    if needs_bias:
        grad_bias = column_sums(grad).to(dtype)
    return grad_x, grad_weight, grad_bias


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, eps):
        check(x, weight, bias, eps)
        return forward(x, weight, bias, eps)

    setup_context = staticmethod(save_moments)

    @staticmethod
    @refuse_double_backward("layer_norm (fused)")
    def backward(ctx, grad_output, *_):
        if grad_output is None:
            return None, None, None, None
        return *backward(grad_output, *ctx.saved_tensors, ctx.needs_input_grad[:3]), None


def apply(x, weight, bias, eps):
    return LayerNorm.apply(x, weight, bias, eps)[0]
