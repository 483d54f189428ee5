"""The formula of gradient reversal in PyTorch operations."""

import torch


def gradient_reversal(x: torch.Tensor, strength: float) -> torch.Tensor:
    """x, with `-strength` times its gradient: the formula by detaching, whose value is exactly x where x is finite."""
    reversed_x = -strength * x
    return reversed_x - reversed_x.detach() + x.detach()


def scaled(x: torch.Tensor, strength: float) -> torch.Tensor:
    """The surrogate: what has that gradient by itself."""
    return -strength * x
