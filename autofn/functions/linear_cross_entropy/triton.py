"""Linear cross entropy by chunks of rows, where what lies between the products is one Triton kernel, a program a row.

A row is walked in blocks of 1,024 logits: for its maximum, for the sum, and to put the gradients in their place.
"""

import torch
import triton
import triton.language as tl

from autofn.arithmetic import wide_dtype
from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, for_dtypes, launch, load_block

from . import rows
from .inputs import options


# Without factors the logits stay. A target that is no word gives NaN.
@triton.jit
def linear_cross_entropy_row_kernel(losses, logits, target, factors, words, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * words
    word = tl.load(target + row)
    largest = load_block(logits, 0, words, float("-inf"), BLOCK)  # (BLOCK,)
    for start in range(BLOCK, words, BLOCK):
        largest = tl.maximum(largest, load_block(logits, start, words, float("-inf"), BLOCK))
    shift = tl.max(largest, 0)
    sums = tl.exp(load_block(logits, 0, words, float("-inf"), BLOCK) - shift)  # (BLOCK,)
    for start in range(BLOCK, words, BLOCK):
        sums += tl.exp(load_block(logits, start, words, float("-inf"), BLOCK) - shift)
    logsumexp = shift + tl.log(tl.sum(sums, 0))
    inside = (word >= 0) & (word < words)
    chosen = tl.load(logits + word, mask=inside, other=float("nan")).to(sums.dtype)
    tl.store(losses + row, logsumexp - chosen)
    if factors is not None:
        factor = tl.load(factors + row)
        for start in range(0, words, BLOCK):
            i = start + tl.arange(0, BLOCK)
            p = tl.exp(load_block(logits, start, words, float("-inf"), BLOCK) - logsumexp)  # (BLOCK,)
            tl.store(logits + i, factor * tl.where(i == word, p - 1, p), mask=i < words)


def part(logits, target, factors):
    """As `rows.part`: the losses, and the gradients in the place of the logits."""
    losses = logits.new_empty(logits.shape[0], dtype=wide_dtype(logits))
    launch(
        linear_cross_entropy_row_kernel,
        (logits.shape[0],),
        losses,
        logits,
        target.contiguous(),
        factors,
        logits.shape[1],
        BLOCK=BLOCK,
    )
    return losses, None if factors is None else logits


class LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(hidden, weight, target, options):
        return rows.forward(part, hidden, weight, target, options)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rows.setup_context(ctx, inputs, output)

    @staticmethod
    @refuse_double_backward("linear_cross_entropy (triton)")
    def backward(ctx, grad_output, *_):
        return rows.backward(ctx, grad_output)


def apply(hidden, weight, target, ignore_index=-100, reduction="mean"):
    given = options(hidden, weight, ignore_index, reduction)
    return LinearCrossEntropy.apply(hidden, weight, target, given)[0]


KERNELS = [
    *for_dtypes(linear_cross_entropy_row_kernel, "*W *T *i64 *W i64", BLOCK=BLOCK),
    *for_dtypes(linear_cross_entropy_row_kernel, "*W *T *i64 *W i64", factors=None, BLOCK=BLOCK),
]
