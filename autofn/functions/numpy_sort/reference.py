"""The formula of sorting in PyTorch operations."""

import torch


def numpy_sort(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """The elements along `dim` in ascending order; equal ones keep theirs."""
    return torch.sort(x, dim=dim, stable=True).values
