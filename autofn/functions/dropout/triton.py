"""Dropout by a Triton kernel, which is its backward too: it draws the mask again, from the same bits as mask.py."""

import torch
import triton
import triton.language as tl

from autofn.triton_kernels import BLOCK, elements, for_dtypes, map_elements, number, widened

from .inputs import check
from .mask import keys


@triton.jit
def mix(h, shift, factor):
    return (h ^ (h >> shift)) * tl.full((), factor, tl.uint32)


@triton.jit
def hashed(index, first, second):
    h = index * tl.full((), 0x9E3779B9, tl.uint32) + first
    h = mix(h, 17, 0xED5AD4BB) ^ second
    return mix(mix(h, 11, 0xAC4C1B51), 15, 0x31848BAB)


@triton.jit(do_not_specialize=["scale", "threshold", "first", "second"])
def dropout_kernel(
    y, x, scale, threshold: tl.uint32, first: tl.uint32, second: tl.uint32, n, BLOCK: tl.constexpr
):  # fmt: skip
    i, inside = elements(n, BLOCK)
    values = widened(tl.load(x + i, mask=inside))  # (BLOCK,)
    keep = hashed(i.to(tl.uint32), first.to(tl.uint32), second.to(tl.uint32)) >= threshold.to(tl.uint32)
    tl.store(y + i, tl.where(keep, values * number(scale, values), 0), mask=inside)


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(x, p, seed):
        check(x, p, seed)
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        map_elements(dropout_kernel, y, x.contiguous(), 1 / (1 - p), int(p * 2**32), *keys(seed))
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.p, ctx.seed = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return Dropout.apply(grad_output, ctx.p, ctx.seed), None, None


apply = Dropout.apply

KERNELS = for_dtypes(dropout_kernel, "*T *T fp64 u32 u32 u32 i64", BLOCK=BLOCK)
