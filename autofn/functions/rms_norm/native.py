"""PyTorch's own operator."""

import torch
import torch.nn.functional as F

from autofn import require


def apply(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`torch.nn.functional.rms_norm` over the last dimension."""
    require.above_zero("rms_norm (native)", eps=eps)
    return F.rms_norm(x, weight.shape, weight, eps)
