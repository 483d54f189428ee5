"""What the variants in Python share: the check of the arguments."""

import torch

from autofn import require

MOST_ELEMENTS = 2**31


def check(x: torch.Tensor, p: float, seed: int) -> None:
    """Raises ValueError where x holds no floating point numbers or too many, p is no probability below 1, or seed no
    integer of 64 bits."""
    require.floating("dropout", x=x)
    if x.numel() > MOST_ELEMENTS:
        raise ValueError(f"dropout: x must hold at most 2**31 elements, got {x.numel()}; give each part its own seed")
    if not 0 <= p < 1:
        raise ValueError(f"dropout: p must be at least 0 and below 1, got {p}")
    if not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"dropout: seed must be an integer of 64 bits, got {seed}")
