"""Root-mean-square normalisation by Triton kernels; float64 stays float64, half types are computed in float32.

Forward and grad_x take a program a row, which is walked in blocks of 1,024 elements, whatever its length. grad_weight
is a sum of 256 rows and 128 columns a program, then the sum of these, in a fixed order and without atomics, so that two
runs agree bit for bit.
"""

import torch
import triton
import triton.language as tl

from autofn.arithmetic import wide_dtype
from autofn.refusal import refuse_double_backward
from autofn.triton_kernels import BLOCK, for_dtypes, launch, load_block, map_rows, number, widened

from .inputs import check, save_inverse

# Rows that one program of the column sums adds up, and its tile: 16 bytes a thread of half types in each load.
SIZES = {"SHARE": 256, "TILE_ROWS": 8, "TILE_COLUMNS": 128}


@triton.jit
def rms_norm_forward_kernel(y, inverses, x, weight, eps: tl.float64, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * features
    y += row * features
    v = load_block(x, 0, features, 0, BLOCK)  # (BLOCK,)
    squares = v * v
    for start in range(BLOCK, features, BLOCK):
        v = load_block(x, start, features, 0, BLOCK)  # (BLOCK,)
        squares += v * v
    mean = tl.sum(squares, 0) / features
    inverse = 1 / tl.sqrt(mean + number(eps, mean))
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = load_block(x, start, features, 0, BLOCK)  # (BLOCK,)
        w = load_block(weight, start, features, 0, BLOCK)  # (BLOCK,)
        tl.store(y + i, v * inverse * w, mask=i < features)
    tl.store(inverses + row, inverse)


@triton.jit
def rms_norm_grad_x_kernel(grad_x, grad_output, x, weight, inverses, features, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    grad_x += row * features
    grad_output += row * features
    x += row * features
    scaled = load_block(grad_output, 0, features, 0, BLOCK) * load_block(weight, 0, features, 0, BLOCK)  # (BLOCK,)
    dots = scaled * load_block(x, 0, features, 0, BLOCK)  # (BLOCK,)
    for start in range(BLOCK, features, BLOCK):
        scaled = load_block(grad_output, start, features, 0, BLOCK) * load_block(weight, start, features, 0, BLOCK)
        dots += scaled * load_block(x, start, features, 0, BLOCK)
    inverse = tl.load(inverses + row)
    along_x = inverse * inverse * inverse * (tl.sum(dots, 0) / features)
    for start in range(0, features, BLOCK):
        i = start + tl.arange(0, BLOCK)
        scaled = load_block(grad_output, start, features, 0, BLOCK) * load_block(weight, start, features, 0, BLOCK)
        v = load_block(x, start, features, 0, BLOCK)  # (BLOCK,)
        tl.store(grad_x + i, inverse * scaled - along_x * v, mask=i < features)


# partial: (shares, features), the sums over SHARE rows each of grad_output * x * r.
@triton.jit
def rms_norm_partial_sums_kernel(
    partial,
    grad_output,
    x,
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
    sums = tl.zeros((TILE_ROWS, TILE_COLUMNS), partial.dtype.element_ty)
    for start in range(0, SHARE, TILE_ROWS):
        row = share * SHARE + start + tl.arange(0, TILE_ROWS)  # (TILE_ROWS,)
        i = row[:, None] * features + columns[None, :]
        mask = (row < rows)[:, None] & inside[None, :]
        grad = widened(tl.load(grad_output + i, mask=mask, other=0))  # (TILE_ROWS, TILE_COLUMNS)
        v = widened(tl.load(x + i, mask=mask, other=0))  # (TILE_ROWS, TILE_COLUMNS)
        inverse = tl.load(inverses + row, mask=row < rows, other=0)  # (TILE_ROWS,)
        sums += grad * v * inverse[:, None]
    tl.store(partial + share * features + columns, tl.sum(sums, 0), mask=inside)


def weight_gradient(grad_output, x, inverse):
    """grad_weight, rounded once."""
    rows, features = inverse.numel(), x.shape[-1]
    partial = inverse.new_empty(triton.cdiv(rows, SIZES["SHARE"]), features)
    grid = (partial.shape[0], triton.cdiv(features, SIZES["TILE_COLUMNS"]))
    launch(rms_norm_partial_sums_kernel, grid, partial, grad_output, x, inverse, rows, features, **SIZES)
    return partial.sum(0).to(x.dtype)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, eps):
        check(x, weight, eps)
        x = x.contiguous()
        y = torch.empty_like(x)
        inverse = x.new_empty(*x.shape[:-1], 1, dtype=wide_dtype(x))
        map_rows(rms_norm_forward_kernel, y, inverse, x, weight.contiguous(), float(eps))
        return y, inverse

    setup_context = staticmethod(save_inverse)

    @staticmethod
    @refuse_double_backward("rms_norm (triton)")
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None, None
        x, weight, inverse = (t if t is None else t.contiguous() for t in ctx.saved_tensors)
        grad_output = grad_output.contiguous()
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.empty_like(x)
            map_rows(rms_norm_grad_x_kernel, grad_x, grad_output, x, weight, inverse)
        return grad_x, weight_gradient(grad_output, x, inverse) if ctx.needs_input_grad[1] else None, None


def apply(x, weight, eps):
    return RmsNorm.apply(x, weight, eps)[0]


KERNELS = [
    *for_dtypes(rms_norm_forward_kernel, "*T *W *T *T fp64 i64", BLOCK=BLOCK),
    *for_dtypes(rms_norm_grad_x_kernel, "*T *T *T *T *W i64", BLOCK=BLOCK),
    *for_dtypes(rms_norm_partial_sums_kernel, "*W *T *T *W i64 i64", **SIZES),
]
