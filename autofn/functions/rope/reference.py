"""The formula of rotary position embedding in PyTorch operations."""

import torch

from autofn.arithmetic import widened


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """The first `2 * pairs` features turned pair by pair, the rest as it is; computed in float32 for half types."""
    features = 2 * cos.shape[-1]
    wide = widened(x[..., :features])
    if interleaved:
        a, b = wide[..., 0::2], wide[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = wide.chunk(2, -1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return torch.cat([turned.to(x.dtype), x[..., features:]], -1)
