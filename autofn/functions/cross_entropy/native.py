"""PyTorch's own operator, called in float32 for half types: it would round the logarithms of the probabilities."""

import torch
import torch.nn.functional as F

from autofn.arithmetic import widened


def apply(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """`torch.nn.functional.cross_entropy`; saves the logarithms of the probabilities."""
    wide_weight = None if weight is None else widened(weight)
    options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    return F.cross_entropy(widened(logits), target, wide_weight, **options).to(logits.dtype)
