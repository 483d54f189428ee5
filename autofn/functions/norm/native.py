"""PyTorch's own operator. Unlike the other variants it lets squares overflow and underflow."""

import torch


def apply(x: torch.Tensor) -> torch.Tensor:
    """`torch.linalg.vector_norm` over the last dimension; saves x and the output."""
    return torch.linalg.vector_norm(x, dim=-1)
