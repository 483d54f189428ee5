"""The formula of layer normalisation in PyTorch operations."""

import torch

from autofn.arithmetic import widened


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """`(x - mean(x)) / sqrt(var(x) + eps) * weight + bias` over the last dimension, in float32 for half types."""
    wide = widened(x)
    centred = wide - wide.mean(-1, keepdim=True)
    inverse = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (centred * inverse * weight + bias).to(x.dtype)
