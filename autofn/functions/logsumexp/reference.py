"""The formula of the logarithm of summed exponentials in PyTorch operations."""

import math

import torch

from autofn.arithmetic import widened


def logsumexp(x: torch.Tensor) -> torch.Tensor:
    """`max(x) + log(sum(exp(x - max(x))))` over the last dimension; a row of -inf alone gives -inf and gradient 0.

    The result does not depend on what is subtracted, so the largest is a constant to autograd.
    """
    if x.shape[-1] == 0:
        return x.exp().sum(-1).log()
    wide = widened(x)
    largest = wide.detach().amax(-1)
    masked = largest == -math.inf
    shift = torch.where(largest.isinf(), 0, largest)
    sums = torch.exp(wide - shift.unsqueeze(-1)).sum(-1)
    return torch.where(masked, -math.inf, shift + torch.where(masked, 1, sums).log()).to(x.dtype)
