"""The formula of clipped ReLU in PyTorch operations."""

import torch


def clipped_relu(x: torch.Tensor, clip: float) -> torch.Tensor:
    """`min(max(x, 0), clip)`, with gradient 1 strictly between the corners and 0 elsewhere."""
    return torch.where((x > 0) & (x < clip), x, x.detach().clamp(0, clip))
