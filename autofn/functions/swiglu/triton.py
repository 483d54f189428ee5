"""The SwiGLU gate by Triton kernels, one a pass; float64 stays float64, half types are computed in float32."""

import torch
import triton
import triton.language as tl

from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, elements, for_dtypes, map_elements, sigmoid, widened

from .formula import check


@triton.jit
def swiglu_forward_kernel(y, gate, up, n, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    g = widened(tl.load(gate + i, mask=inside))  # (BLOCK,)
    u = widened(tl.load(up + i, mask=inside))  # (BLOCK,)
    tl.store(y + i, g * sigmoid(g) * u, mask=inside)


# grad_gate or grad_up is None where it is not needed; without grad_gate, up is not read.
@triton.jit
def swiglu_backward_kernel(grad_gate, grad_up, grad_output, gate, up, n, BLOCK: tl.constexpr):
    i, inside = elements(n, BLOCK)
    grad = widened(tl.load(grad_output + i, mask=inside))  # (BLOCK,)
    g = widened(tl.load(gate + i, mask=inside))  # (BLOCK,)
    s = sigmoid(g)
    silu = g * s
    if grad_gate is not None:
        u = widened(tl.load(up + i, mask=inside))  # (BLOCK,)
        tl.store(grad_gate + i, grad * u * (s + silu * (1 - s)), mask=inside)
    if grad_up is not None:
        tl.store(grad_up + i, grad * silu, mask=inside)


class Swiglu(torch.autograd.Function):
    @staticmethod
    def forward(gate, up):
        check(gate, up)
        y = torch.empty_like(gate, memory_format=torch.contiguous_format)
        map_elements(swiglu_forward_kernel, y, gate.contiguous(), up.contiguous())
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        gate, up = inputs
        ctx.save_for_backward(gate, up if ctx.needs_input_grad[0] else None)

    @staticmethod
    @refuse_double_backward("swiglu (triton)")
    def backward(ctx, grad_output):
        gate, up = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        grads = tuple(torch.empty_like(gate) if needed else None for needed in ctx.needs_input_grad)
        map_elements(swiglu_backward_kernel, *grads, grad_output.contiguous(), gate, up)
        return grads


apply = Swiglu.apply

KERNELS = [
    *for_dtypes(swiglu_forward_kernel, "*T *T *T i64", BLOCK=BLOCK),
    *for_dtypes(swiglu_backward_kernel, "*T *T *T *T *T i64", BLOCK=BLOCK),
    *for_dtypes(swiglu_backward_kernel, "*T *T *T *T *T i64", grad_up=None, BLOCK=BLOCK),
    *for_dtypes(swiglu_backward_kernel, "*T *T *T *T *T i64", grad_gate=None, up=None, BLOCK=BLOCK),
]
