"""The formula of linear cross entropy in PyTorch operations, with all logits at once."""

import torch

from autofn.arithmetic import widened


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> torch.Tensor:
    """`logsumexp(logits) - logits[target]` of `logits = hidden @ weight.T`, computed in float32 for half types."""
    logits = hidden @ weight.T
    logits = widened(logits)
    kept = target != ignore_index
    chosen = torch.where(kept, target, 0)[:, None]
    losses = torch.where(kept, logits.logsumexp(1) - logits.gather(1, chosen).squeeze(1), 0)
    loss = losses.sum() / kept.sum() if reduction == "mean" else losses.sum()
    return loss.to(hidden.dtype)
