"""The formula of the square in PyTorch operations."""

import torch


def square(x: torch.Tensor) -> torch.Tensor:
    """`x * x`, element by element."""
    return x * x
