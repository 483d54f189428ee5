"""The formula of straight-through rounding in PyTorch operations, and what its gradient is that of."""

import torch


def round_ste(x: torch.Tensor) -> torch.Tensor:
    """`round(x)`, halves to even, with gradient 1. Exact: see __init__.py."""
    return x + (x.round() - x).detach()


def identity(x: torch.Tensor) -> torch.Tensor:
    """The surrogate: x, as a tensor of its own."""
    return x.clone()
