"""The formula of softmax in PyTorch operations."""

import math

import torch

from autofn.arithmetic import widened


def softmax(x: torch.Tensor) -> torch.Tensor:
    """`exp(x - max(x)) / sum(exp(x - max(x)))` over the last dimension; a row of -inf alone gives 0 and gradient 0.

    The result does not depend on what is subtracted, so the largest is a constant to autograd.
    """
    if x.numel() == 0:
        return x.exp()
    wide = widened(x)
    largest = wide.detach().amax(-1, keepdim=True)
    masked = largest == -math.inf
    exponentials = torch.exp(wide - torch.where(masked, 0, largest))
    return (exponentials / torch.where(masked, 1, exponentials.sum(-1, keepdim=True))).to(x.dtype)
