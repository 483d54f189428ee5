"""What the variants in Python share: the check of the argument, and the float type of the arithmetic."""

import torch

from autofn import require


def check(x: torch.Tensor) -> None:
    """Raises ValueError where x holds no floating point numbers or has no rows."""
    require.floating("norm", x=x)
    if x.dim() == 0:
        raise ValueError("norm: x must have at least one dimension, got a scalar")
