"""The formula of the Euclidean norm in PyTorch operations."""

import torch

from autofn.arithmetic import widened


def norm(x: torch.Tensor) -> torch.Tensor:
    """`max(|x|) * sqrt(sum((x / max(|x|))**2))` over the last dimension; a row of 0 alone gives 0 and gradient 0.

    The result does not depend on what x is divided by, so the largest is a constant to autograd. A row with an infinity
    is not divided, for inf / inf is NaN.
    """
    if x.shape[-1] == 0:
        return x.sum(-1)
    wide = widened(x)
    largest = wide.detach().abs().amax(-1)
    zero = largest == 0
    scale = torch.where(zero | largest.isinf(), 1, largest)
    squares = (wide / scale.unsqueeze(-1)).square().sum(-1)
    return torch.where(zero, 0, scale * torch.where(zero, 1, squares).sqrt()).to(x.dtype)
