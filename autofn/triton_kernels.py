"""What the Triton variants share: how a kernel is launched, the type of its arithmetic, what is compiled without a GPU.

Only a variant's `triton.py` imports this module, for it imports Triton. With TRITON_INTERPRET=1 in the environment the
kernels run on the CPU, interpreted: slowly, so that they can be checked where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

# Elements a program of an element-wise kernel takes: 8 a thread, so 16 bytes a load in half types.
BLOCK = 1024
NUM_WARPS = 4

# The element types of a kernel, each with the type of its arithmetic, as a signature names them.
WIDE = {"fp32": "fp32", "bf16": "fp32", "fp64": "fp64", "fp16": "fp32"}


@dataclass(frozen=True)
class Kernel:
    """One compilation of a kernel.

    function: what `triton.jit` made. signature: the type of each argument by its name, such as "*fp32" or "constexpr".
    constants: the values of those that are "constexpr".
    """

    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    num_warps: int = NUM_WARPS


def for_dtypes(function: Any, types: str, *, num_warps: int = NUM_WARPS, **constants: Any) -> list[Kernel]:
    """The kernel for each element type.

    types: of the arguments before the constants, in their order; T is the element type, W that of the arithmetic:
        "*T *T *W fp64 i64".
    """
    return [
        Kernel(function, _signature(function, types, {"T": element, "W": wide}, constants), constants, num_warps)
        for element, wide in WIDE.items()
    ]


def _signature(
    function: Any, types: str, letters: Mapping[str, str], constants: Mapping[str, Any]
) -> Mapping[str, str]:
    given = (letters.get(word.lstrip("*"), word.lstrip("*")) for word in types.split())
    stars = ("*" * word.count("*") for word in types.split())
    named = dict(zip(function.arg_names, map("".join, zip(stars, given, strict=True)), strict=False))
    return {**named, **dict.fromkeys(constants, "constexpr")}


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, num_warps: int = NUM_WARPS, **constants: Any) -> None:
    """Starts a kernel on the device of its first tensor; nothing where the grid is empty."""
    if 0 in grid:
        return
    with torch.cuda.device_of(_first_tensor(args)):
        kernel[grid](*args, num_warps=num_warps, **constants)


def map_elements(kernel: Any, *args: Any, **constants: Any) -> None:
    """Launches `kernel(*args, n, BLOCK)` over the n elements of each tensor; all are contiguous and of one size."""
    n = _first_tensor(args).numel()
    launch(kernel, (triton.cdiv(n, BLOCK),), *args, n, BLOCK=BLOCK, **constants)


def map_rows(kernel: Any, *args: Any) -> None:
    """Launches `kernel(*args, features, BLOCK)`, a program a row of the first tensor, whose last dimension it is."""
    features = _first_tensor(args).shape[-1]
    rows = _first_tensor(args).numel() // max(1, features)
    launch(kernel, (rows,), *args, features, BLOCK=BLOCK)


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor:
    return next(value for value in args if isinstance(value, torch.Tensor))


@triton.jit
def elements(n, BLOCK: tl.constexpr):
    """The indices of a program's elements, (BLOCK,), and which of them are below n."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    return i, i < n


@triton.jit
def load_block(row, start, features, other, BLOCK: tl.constexpr):
    """The block of a row from `start` on in the type of the arithmetic, (BLOCK,), with `other` past the row's end."""
    i = start + tl.arange(0, BLOCK)
    return widened(tl.load(row + i, mask=i < features, other=other))


@triton.jit
def widened(x):
    """The tensor in the type of the arithmetic: float64 stays, all else becomes float32."""
    return x if x.dtype == tl.float64 else x.to(tl.float32)


@triton.jit
def number(value, like):
    """A Python number, handed over as float64, in the type of `like`."""
    return tl.full((), value, like.dtype)


@triton.jit
def sigmoid(x):
    """`1 / (1 + exp(-x))` in the type of x."""
    return 1 / (1 + tl.exp(-x))
