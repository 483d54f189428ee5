"""The formula of the cube in PyTorch operations."""

import torch


def cube(x: torch.Tensor) -> torch.Tensor:
    """`x * x * x`, element by element."""
    return x * x * x
