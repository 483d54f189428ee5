"""What the variants in Python share: the check of the arguments, and the view as a matrix."""

import torch

from autofn import require


def check(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Raises ValueError where shapes or dtypes do not fit."""
    if input.dim() == 0:
        raise ValueError("linear: input must have at least one dimension, got a scalar")
    require.shape("linear", "weight", weight, (None, input.shape[-1]))
    if bias is None:
        require.floating("linear", input=input, weight=weight)
    else:
        require.shape("linear", "bias", bias, (weight.shape[0],))
        require.floating("linear", input=input, weight=weight, bias=bias)


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """All leading dimensions as one: (rows, features)."""
    return tensor.reshape(tensor.shape[:-1].numel(), tensor.shape[-1])
