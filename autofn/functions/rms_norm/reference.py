"""The formula of root-mean-square normalisation in PyTorch operations."""

import torch

from autofn.arithmetic import widened


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / sqrt(mean(x**2) + eps) * weight` over the last dimension, computed in float32 for half types."""
    wide = widened(x)
    inverse_rms = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * inverse_rms * weight).to(x.dtype)
