"""The formula of a product with a constant in PyTorch operations."""

import torch


def mul_constant(x: torch.Tensor, constant: float) -> torch.Tensor:
    """`x * constant`, element by element."""
    return x * constant
