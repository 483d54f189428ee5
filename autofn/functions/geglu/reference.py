"""The formula of the GEGLU gate in PyTorch operations."""

import torch
import torch.nn.functional as F


def geglu(gate: torch.Tensor, up: torch.Tensor, approximate: str) -> torch.Tensor:
    """`gelu(gate) * up`, element by element; approximate is "none" or "tanh"."""
    return F.gelu(gate, approximate=approximate) * up
