"""The formula of the linear layer in PyTorch operations."""

import torch


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """`input @ weight.T + bias` over the last dimension; without bias where that is None."""
    product = input @ weight.T
    return product if bias is None else product + bias
