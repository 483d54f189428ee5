"""The formula of the rectified linear unit in PyTorch operations."""

import torch


def relu(x: torch.Tensor) -> torch.Tensor:
    """`max(x, 0)`, with gradient 0 at 0 and at NaN the gradient of x."""
    return torch.where(x <= 0, 0, x)
