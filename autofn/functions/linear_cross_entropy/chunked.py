"""What the variants in Python share: ranges of rows or of the vocabulary, sums over them, and the reduction."""

from collections.abc import Iterator
from typing import Any

import torch

# Logits that exist at once: on the CPU they stay in the caches, on a GPU their products fill it.
CPU_ELEMENTS, GPU_ELEMENTS = 2**20, 2**26
# With fewer rows a product of matrices waits for the memory of its larger factor.
LEAST = 32


def size(other: int, device: torch.device) -> int:
    """The rows or words of a chunk, where each has `other` logits."""
    most = CPU_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
    return max(LEAST, most // max(1, other))


def chunks(count: int, other: int, device: torch.device) -> Iterator[slice]:
    """Ranges of `count` rows or words; with `other` words or rows each makes a chunk of logits."""
    each = size(other, device)
    return (slice(start, min(start + each, count)) for start in range(0, count, each))


def add_product(sums: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """`sums += a @ b`, where the product has the dtype of its factors."""
    if sums.dtype == a.dtype:
        sums.addmm_(a, b)
    else:
        sums += a @ b


def factors(target: torch.Tensor, options: Any, dtype: torch.dtype) -> torch.Tensor:
    """(rows,): the derivative of the loss by each row's loss, 0 where the target is ignored."""
    kept = target != options.ignore_index
    factor = 1 / kept.sum(dtype=dtype) if options.reduction == "mean" else kept.new_ones((), dtype=dtype)
    return torch.where(kept, factor, 0)


def reduced(losses: torch.Tensor, target: torch.Tensor, options: Any) -> torch.Tensor:
    """The losses of the rows, of which those of ignored ones do not count, as one number."""
    kept = target != options.ignore_index
    total = torch.where(kept, losses, 0).sum()
    return total / kept.sum() if options.reduction == "mean" else total
