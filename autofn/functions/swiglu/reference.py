"""The formula of the SwiGLU gate in PyTorch operations."""

import torch
import torch.nn.functional as F


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`, element by element."""
    return F.silu(gate) * up
