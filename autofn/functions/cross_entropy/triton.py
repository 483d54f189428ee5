"""Cross entropy by Triton kernels, one a pass and one program a row; float64 stays float64, half types become float32.

A row is walked in blocks of 1,024 classes, whatever their number: what is read again comes from the caches. What is one
number a row or less is PyTorch's.
"""

import torch
import triton
import triton.language as tl

from autofn.arithmetic import wide_dtype
from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, for_dtypes, launch, load_block, number, widened

from . import inputs


@triton.jit
def weights_of(weight, start, classes, like, BLOCK: tl.constexpr):
    """The weights of a block of classes, (BLOCK,), 0 past the last; all are 1 where weight is None."""
    if weight is None:
        weights = (start + tl.arange(0, BLOCK) < classes).to(like.dtype)
    else:
        weights = load_block(weight, start, classes, 0, BLOCK)
    return weights


@triton.jit
def part_of_target(weight, target, classes, smoothing):
    """What the target counts by itself; 0 where it is no class."""
    part = 1 - smoothing
    if weight is not None:
        part *= widened(tl.load(weight + target, mask=(target >= 0) & (target < classes), other=0))
    return part


@triton.jit
def cross_entropy_forward_kernel(
    losses, logsumexps, logits, target, weight, label_smoothing: tl.float64, ignore_index, classes,
    SMOOTHED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * classes
    t = tl.load(target + row)
    # A maximum may pass over a NaN: its exponential is NaN in any case, and so is the sum.
    largest = load_block(x, 0, classes, float("-inf"), BLOCK)  # (BLOCK,)
    for start in range(BLOCK, classes, BLOCK):
        largest = tl.maximum(largest, load_block(x, start, classes, float("-inf"), BLOCK))
    shift = tl.max(largest, 0)
    shift = tl.where(shift == float("-inf"), 0, shift)
    sums = tl.exp(load_block(x, 0, classes, float("-inf"), BLOCK) - shift)  # (BLOCK,)
    for start in range(BLOCK, classes, BLOCK):
        sums += tl.exp(load_block(x, start, classes, float("-inf"), BLOCK) - shift)
    # Of a row of -infinity alone it is -infinity, and the loss NaN.
    logsumexp = shift + tl.log(tl.sum(sums, 0))
    smoothing = number(label_smoothing, logsumexp)
    at_target = widened(tl.load(x + t, mask=(t >= 0) & (t < classes), other=float("nan")))
    loss = part_of_target(weight, t, classes, smoothing) * (logsumexp - at_target)
    if SMOOTHED:
        weights = weights_of(weight, 0, classes, logsumexp, BLOCK)  # (BLOCK,)
        distances = weights * (logsumexp - load_block(x, 0, classes, 0, BLOCK))  # (BLOCK,)
        for start in range(BLOCK, classes, BLOCK):
            weights = weights_of(weight, start, classes, logsumexp, BLOCK)
            distances += weights * (logsumexp - load_block(x, start, classes, 0, BLOCK))
        loss += smoothing / classes * tl.sum(distances, 0)
    tl.store(losses + row, tl.where(t == ignore_index, 0, loss))
    tl.store(logsumexps + row, logsumexp)


# grads: of the losses, one a row. all_weights: one number.
@triton.jit
def cross_entropy_backward_kernel(
    grad_logits, grads, logits, target, logsumexps, weight, all_weights, label_smoothing: tl.float64, ignore_index,
    classes, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    x = logits + row * classes
    t = tl.load(target + row)
    logsumexp = tl.load(logsumexps + row)
    grad = tl.load(grads + row)
    smoothing = number(label_smoothing, logsumexp)
    of_target = part_of_target(weight, t, classes, smoothing)
    of_each = smoothing / classes
    total = of_target + of_each * tl.load(all_weights)
    for start in range(0, classes, BLOCK):
        i = start + tl.arange(0, BLOCK)
        p = tl.exp(load_block(x, start, classes, float("-inf"), BLOCK) - logsumexp)  # (BLOCK,)
        q = of_each * weights_of(weight, start, classes, logsumexp, BLOCK) + tl.where(i == t, of_target, 0)
        gradient = tl.where(t == ignore_index, 0, grad * (total * p - q))
        tl.store(grad_logits + row * classes + i, gradient, mask=i < classes)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(logits, target, weight, options):
        inputs.check(logits, target, weight, options)
        dtype = wide_dtype(logits)
        losses, logsumexp = (logits.new_empty(target.shape, dtype=dtype) for _ in range(2))
        launch(
            cross_entropy_forward_kernel, target.shape, losses, logsumexp, logits.contiguous(), target.contiguous(),
            None if weight is None else weight.contiguous(), float(options.label_smoothing), options.ignore_index,
            logits.shape[1], SMOOTHED=options.label_smoothing > 0, BLOCK=BLOCK,
        )  # fmt: skip
        return inputs.reduced(losses, target, weight, options).to(logits.dtype), logsumexp

    setup_context = staticmethod(inputs.save_logsumexp)

    @staticmethod
    @refuse_double_backward("cross_entropy (triton)")
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None, None
        logits, target, weight, logsumexp = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        grads = inputs.gradients_of_losses(grad_output, target, weight, ctx.options).expand(target.shape).contiguous()
        all_weights = logsumexp.new_full((), logits.shape[1]) if weight is None else inputs.widened(weight).sum()
        grad_logits = torch.empty_like(logits)
        launch(
            cross_entropy_backward_kernel, target.shape, grad_logits, grads, logits, target, logsumexp, weight,
            all_weights, float(ctx.options.label_smoothing), ctx.options.ignore_index, logits.shape[1], BLOCK=BLOCK,
        )  # fmt: skip
        return grad_logits, None, None, None


apply = inputs.with_defaults(lambda *args: CrossEntropy.apply(*args)[0])

KERNELS = [
    *for_dtypes(cross_entropy_forward_kernel, "*W *W *T *i64 *T fp64 i64 i64", SMOOTHED=True, BLOCK=BLOCK),
    *for_dtypes(cross_entropy_backward_kernel, "*T *W *T *i64 *W *T *W fp64 i64 i64", BLOCK=BLOCK),
]
