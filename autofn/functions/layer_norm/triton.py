"""Layer normalisation by Triton kernels; float64 stays float64, half types are computed in float32.

Forward and grad_x take a program a row, which is walked in blocks of 1,024 elements, whatever its length. The gradients
of weight and bias are sums of 256 rows and 128 columns a program, then the sum of these, in a fixed order and without
atomics, so that two runs agree bit for bit.
"""

import torch
import triton
import triton.language as tl

from autofn.arithmetic import wide_dtype
from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, for_dtypes, launch, load_block, map_rows, number, widened

from .inputs import check, save_moments

# Rows that one program of the column sums adds up, and its tile: 16 bytes a thread of half types in each load.
SHARE, TILE_ROWS, TILE_COLUMNS = 256, 8, 128


@triton.jit
def layer_norm_forward_kernel(y, means, inverses, x, weight, bias, eps: tl.float64, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * features
    y += row * features
    sums = load_block(x, 0, features, 0, BLOCK)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        sums += load_block(x, start, features, 0, BLOCK)
    mean = tl.sum(sums, 0) / features
    centred = tl.where(tl.arange(0, BLOCK) < features, load_block(x, 0, features, 0, BLOCK) - mean, 0)  # (BLOCK,)
    squares = centred * centred
    for start in range(BLOCK, features, BLOCK):
        inside = start + tl.arange(0, BLOCK) < features
        centred = tl.where(inside, load_block(x, start, features, 0, BLOCK) - mean, 0)
        squares += centred * centred
    inverse = 1 / tl.sqrt(tl.sum(squares, 0) / features + number(eps, mean))
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        z = (load_block(x, start, features, 0, BLOCK) - mean) * inverse  # (BLOCK,)
        w = load_block(weight, start, features, 0, BLOCK)  # (BLOCK,)
        b = load_block(bias, start, features, 0, BLOCK)  # (BLOCK,)
        tl.store(y + i, z * w + b, mask=i < features)
    tl.store(means + row, mean)
    tl.store(inverses + row, inverse)


@triton.jit
def layer_norm_grad_x_kernel(grad_x, grad_output, x, weight, means, inverses, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * features
    grad_output += row * features
    mean = tl.load(means + row)
    inverse = tl.load(inverses + row)
    # Past the row's end grad_output is 0, and so are both terms.
    scaled = load_block(grad_output, 0, features, 0, BLOCK) * load_block(weight, 0, features, 0, BLOCK)  # (BLOCK,)
    sums = scaled
    dots = scaled * (load_block(x, 0, features, 0, BLOCK) - mean)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        scaled = load_block(grad_output, start, features, 0, BLOCK) * load_block(weight, start, features, 0, BLOCK)
        sums += scaled
        dots += scaled * (load_block(x, start, features, 0, BLOCK) - mean)
    offset = tl.sum(sums, 0) / features
    along_z = tl.sum(dots, 0) * inverse / features
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        scaled = load_block(grad_output, start, features, 0, BLOCK) * load_block(weight, start, features, 0, BLOCK)
        z = (load_block(x, start, features, 0, BLOCK) - mean) * inverse  # (BLOCK,)
        tl.store(grad_x + row * features + i, inverse * (scaled - offset - z * along_z), mask=i < features)


# The sums of SHARE rows each; weight_sums or bias_sums is None where it is not needed, and with weight_sums also x.
@triton.jit
def layer_norm_partial_sums_kernel(
    weight_sums,
    bias_sums,
    grad_output,
    x,
    means,
    inverses,
    rows,
    features,
    SHARE: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
):
    share = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * TILE_COLUMNS + tl.arange(0, TILE_COLUMNS)  # (TILE_COLUMNS,)
    inside = columns < features
    wide: tl.constexpr = tl.float64 if grad_output.dtype.element_ty == tl.float64 else tl.float32
    to_weight = tl.zeros((TILE_ROWS, TILE_COLUMNS), wide)
    to_bias = tl.zeros((TILE_ROWS, TILE_COLUMNS), wide)
    for start in range(0, SHARE, TILE_ROWS):
        row = share * SHARE + start + tl.arange(0, TILE_ROWS)  # (TILE_ROWS,)
        there = row < rows
        i = row[:, None] * features + columns[None, :]
        mask = there[:, None] & inside[None, :]
        grad = widened(tl.load(grad_output + i, mask=mask, other=0))  # (TILE_ROWS, TILE_COLUMNS)
        if weight_sums is not None:
            v = widened(tl.load(x + i, mask=mask, other=0))  # (TILE_ROWS, TILE_COLUMNS)
            mean = tl.load(means + row, mask=there, other=0)  # (TILE_ROWS,)
            inverse = tl.load(inverses + row, mask=there, other=0)  # (TILE_ROWS,)
            to_weight += grad * ((v - mean[:, None]) * inverse[:, None])
        if bias_sums is not None:
            to_bias += grad
    if weight_sums is not None:
        tl.store(weight_sums + share * features + columns, tl.sum(to_weight, 0), mask=inside)
    if bias_sums is not None:
        tl.store(bias_sums + share * features + columns, tl.sum(to_bias, 0), mask=inside)


def parameter_gradients(grad_output, x, mean, inverse, needs):
    """grad_weight and grad_bias, each where it is needed."""
    features = grad_output.shape[-1]
    rows = grad_output.numel() // max(1, features)
    shares = triton.cdiv(rows, SHARE)
    wide = wide_dtype(grad_output)
    sums = [grad_output.new_empty(shares, features, dtype=wide) if needed else None for needed in needs]
    grid = (shares, triton.cdiv(features, TILE_COLUMNS)) if any(needs) else (0,)
    sizes = {"SHARE": SHARE, "TILE_ROWS": TILE_ROWS, "TILE_COLUMNS": TILE_COLUMNS}
    launch(layer_norm_partial_sums_kernel, grid, *sums, grad_output, x, mean, inverse, rows, features, **sizes)
    return [None if each is None else each.sum(0).to(grad_output.dtype) for each in sums]


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, bias, eps):
        check(x, weight, bias, eps)
        x = x.contiguous()
        y = torch.empty_like(x)
        mean, inverse = (x.new_empty(*x.shape[:-1], 1, dtype=wide_dtype(x)) for _ in "mi")
        args = (x, weight.contiguous(), bias.contiguous(), float(eps))
        map_rows(layer_norm_forward_kernel, y, mean, inverse, *args)
        return y, mean, inverse

    setup_context = staticmethod(save_moments)

    @staticmethod
    @refuse_double_backward("layer_norm (triton)")
    def backward(ctx, grad_output, *_):
        if grad_output is None:
            return None, None, None, None
        x, weight, mean, inverse = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        grad_output = grad_output.contiguous()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.empty_like(x)
            map_rows(layer_norm_grad_x_kernel, grad_x, grad_output, x, weight, mean, inverse)
        return grad_x, *parameter_gradients(grad_output, x, mean, inverse, ctx.needs_input_grad[1:3]), None


def apply(x, weight, bias, eps):
    return LayerNorm.apply(x, weight, bias, eps)[0]


KERNELS = [
    *for_dtypes(layer_norm_forward_kernel, "*T *W *W *T *T *T fp64 i64", BLOCK=BLOCK),
    *for_dtypes(layer_norm_grad_x_kernel, "*T *T *T *T *W *W i64", BLOCK=BLOCK),
    *for_dtypes(
        layer_norm_partial_sums_kernel,
        "*W *W *T *T *W *W i64 i64",
        SHARE=SHARE,
        TILE_ROWS=TILE_ROWS,
        TILE_COLUMNS=TILE_COLUMNS,
    ),
]
