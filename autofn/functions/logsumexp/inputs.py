"""What the variants in Python share: the check of the argument, and the float type of the arithmetic."""

import math

import torch

from autofn import require
from autofn.arithmetic import widened


def check(x: torch.Tensor) -> None:
    """Raises ValueError where x holds no floating point numbers or has no rows."""
    require.floating("logsumexp", x=x)
    if x.dim() == 0:
        raise ValueError("logsumexp: x must have at least one dimension, got a scalar")


def shifted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """exp(x - largest) in float32 at least, and the largest of each row, (..., 1); there must be one.

    The largest is a constant to autograd. A fully masked row is left as it is, since -inf - -inf is NaN.
    """
    wide = widened(x)
    largest = wide.detach().amax(-1, keepdim=True)
    return torch.exp(wide - torch.where(largest == -math.inf, 0, largest)), largest
