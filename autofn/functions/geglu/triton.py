"""The GEGLU gate by Triton kernels, one a pass; float64 stays float64, half types are computed in float32.

Phi comes from erf, for Triton has no erfc: far below 0 its error is relative to 1, as in PyTorch's `gelu`.
"""

import torch
import triton
import triton.language as tl

from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, elements, for_dtypes, map_elements, number, sigmoid, widened

from .formula import FAR as FAR_NUMBER
from .formula import check

FAR = tl.constexpr(FAR_NUMBER)


@triton.jit
def at_least(x):
    """At least -FAR; NaN stays."""
    return tl.where(x < -FAR, -FAR, x)


@triton.jit
def twice_u(x, IS_SLOPE: tl.constexpr):
    """The argument of the sigmoid, or its derivative in x."""
    scale = number(1.5957691216057308, x)
    if IS_SLOPE:
        return scale * (1 + 0.134145 * x * x)
    return scale * x * (1 + 0.044715 * x * x)


@triton.jit
def proportion(x, IS_TANH: tl.constexpr):
    """p(x) of gelu(x) = x * p(x)."""
    if IS_TANH:
        return sigmoid(twice_u(x, False))
    return 0.5 * (1 + tl.erf(x * number(0.7071067811865476, x)))


@triton.jit
def x_times_slope(x, IS_TANH: tl.constexpr):
    """x * p'(x)."""
    if IS_TANH:
        argument = twice_u(x, False)
        return x * twice_u(x, True) * sigmoid(argument) * sigmoid(-argument)
    return x * number(0.3989422804014327, x) * tl.exp(-0.5 * x * x)


@triton.jit
def geglu_forward_kernel(y, gate, up, n, IS_TANH: tl.constexpr, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    g = widened(tl.load(gate + i, mask=inside))  # (BLOCK,)
    u = widened(tl.load(up + i, mask=inside))  # (BLOCK,)
    x = at_least(tl.where(g > FAR, FAR, g))
    tl.store(y + i, at_least(g) * proportion(x, IS_TANH) * u, mask=inside)


# grad_gate or grad_up is None where it is not needed; without grad_gate, up is not read.
@triton.jit
def geglu_backward_kernel(grad_gate, grad_up, grad_output, gate, up, n, IS_TANH: tl.constexpr, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    grad = widened(tl.load(grad_output + i, mask=inside))  # (BLOCK,)
    g = widened(tl.load(gate + i, mask=inside))  # (BLOCK,)
    x = at_least(tl.where(g > FAR, FAR, g))
    p = proportion(x, IS_TANH)
    if grad_gate is not None:
        u = widened(tl.load(up + i, mask=inside))  # (BLOCK,)
        tl.store(grad_gate + i, grad * u * (p + x_times_slope(x, IS_TANH)), mask=inside)
    if grad_up is not None:
        tl.store(grad_up + i, grad * at_least(g) * p, mask=inside)


class Geglu(torch.autograd.Function):
    @staticmethod
    def forward(gate, up, approximate):
        check(gate, up, approximate)
        y = torch.empty_like(gate, memory_format=torch.contiguous_format)
        map_elements(geglu_forward_kernel, y, gate.contiguous(), up.contiguous(), IS_TANH=approximate == "tanh")
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up, ctx.approximate = inputs
        ctx.save_for_backward(gate, up if ctx.needs_input_grad[0] else None)

    @staticmethod
    @refuse_double_backward("geglu (triton)")
    def backward(ctx, grad_output):
        gate, up = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        grads = tuple(torch.empty_like(gate) if needed else None for needed in ctx.needs_input_grad[:2])
        is_tanh = ctx.approximate == "tanh"
        map_elements(geglu_backward_kernel, *grads, grad_output.contiguous(), gate, up, IS_TANH=is_tanh)
        return *grads, None


apply = Geglu.apply

PAIR, BOTH = "*T *T *T i64", "*T *T *T *T *T i64"
KERNELS = [
    kernel
    for is_tanh in (False, True)
    for kernel in (
        *for_dtypes(geglu_forward_kernel, PAIR, IS_TANH=is_tanh, BLOCK=BLOCK),
        *for_dtypes(geglu_backward_kernel, BOTH, IS_TANH=is_tanh, BLOCK=BLOCK),
        *for_dtypes(geglu_backward_kernel, BOTH, grad_up=None, IS_TANH=is_tanh, BLOCK=BLOCK),
        *for_dtypes(geglu_backward_kernel, BOTH, grad_gate=None, up=None, IS_TANH=is_tanh, BLOCK=BLOCK),
    )
]
