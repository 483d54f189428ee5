"""What an argument must be, and the integers that a permutation is kept in."""

import torch

from autofn import require

# By the number of elements that each can count, the smallest first.
INDEX_DTYPES = ((2**8, torch.uint8), (2**16, torch.uint16), (2**31, torch.int32))


def check(x: torch.Tensor, dim: int) -> None:
    """Raises ValueError where dtype, shape, dim or device do not fit."""
    require.floating("numpy_sort", x=x)
    if not -x.dim() <= dim < x.dim():
        raise ValueError(f"numpy_sort: dim must be a dimension of x, which has {x.dim()}, got {dim}")
    if x.device.type != "cpu":
        raise ValueError(f"numpy_sort: x must be on the CPU, where NumPy is, got {x.device}; use torch.sort")


def index_dtype(length: int) -> torch.dtype:
    """The smallest integer type that holds the indices of `length` elements."""
    return next((dtype for most, dtype in INDEX_DTYPES if length <= most), torch.int64)
