"""The formula of cross entropy in PyTorch operations."""

import torch

from autofn.arithmetic import widened


def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """`logsumexp(logits) - logits[target]`, weighted, smoothed and reduced, computed in float32 for half types."""
    wide = widened(logits)
    weights = wide.new_ones(wide.shape[1]) if weight is None else weight.to(wide.dtype)
    kept = target != ignore_index
    chosen = torch.where(kept, target, 0)
    distances = -torch.log_softmax(wide, 1)
    losses = (1 - label_smoothing) * weights[chosen] * distances.gather(1, chosen[:, None]).squeeze(1)
    if label_smoothing:
        losses = losses + label_smoothing / wide.shape[1] * (distances * weights).sum(1)
    losses = torch.where(kept, losses, 0)
    if reduction == "none":
        return losses.to(logits.dtype)
    total = torch.where(kept, weights[chosen], 0).sum() if reduction == "mean" else 1
    return (losses.sum() / total).to(logits.dtype)
