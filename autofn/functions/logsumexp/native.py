"""PyTorch's own operator. Unlike the other variants it gives NaN as the gradient of a row of -inf alone."""

import torch


def apply(x: torch.Tensor) -> torch.Tensor:
    """`torch.logsumexp` over the last dimension; saves x and the output."""
    return torch.logsumexp(x, -1)
