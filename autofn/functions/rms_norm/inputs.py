"""What the variants in Python share: the check of the arguments, and the float type of the arithmetic."""

import torch

from autofn import require


def check(x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Raises ValueError where shapes, dtypes or eps do not fit."""
    if x.dim() == 0:
        raise ValueError("rms_norm: x must have at least one dimension, got a scalar")
    require.shape("rms_norm", "weight", weight, (x.shape[-1],))
    require.floating("rms_norm", x=x, weight=weight)
    require.above_zero("rms_norm", eps=eps)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in float32 at least: half types neither square nor add up well."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
