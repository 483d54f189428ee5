"""The formula of dropout in PyTorch operations."""

import torch

from .mask import kept


def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """`x / (1 - p)` where an element is kept, 0 where it is dropped, whatever it held."""
    return torch.where(kept(x, p, seed), x * (1 / (1 - p)), 0)
