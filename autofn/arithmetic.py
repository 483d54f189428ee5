"""The float type that variants in Python compute in."""

from __future__ import annotations

import torch


def wide_dtype(tensor: torch.Tensor) -> torch.dtype:
    """float32 at least: in half types each step would round, and sums would not add up."""
    return torch.promote_types(tensor.dtype, torch.float32)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in `wide_dtype`; itself where that is its own."""
    return tensor.to(wide_dtype(tensor))
