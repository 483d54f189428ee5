"""The formula of the hyperbolic sine in PyTorch operations."""

import torch


def sinh(x: torch.Tensor) -> torch.Tensor:
    """`(exp(x) - exp(-x)) / 2`, element by element."""
    return (torch.exp(x) - torch.exp(-x)) / 2
