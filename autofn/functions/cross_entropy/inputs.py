"""What the variants in Python share: the check of the arguments, and the formula of the gradient."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from autofn import require
from autofn.arithmetic import widened

REDUCTIONS = ("none", "sum", "mean")


class Options(NamedTuple):
    """What is no tensor."""

    ignore_index: int
    reduction: str
    label_smoothing: float


def with_defaults(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`function(logits, target, weight, options)` with the arguments of the reference.

    The call raises ValueError where weight would be given a gradient.
    """

    def apply(
        logits: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> torch.Tensor:
        if weight is not None and weight.requires_grad and torch.is_grad_enabled():
            raise ValueError("cross_entropy: weight must not require grad, for it is given none")
        return function(logits, target, weight, Options(ignore_index, reduction, label_smoothing))

    return apply


def check(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: Options) -> None:
    """Raises ValueError where an argument does not fit, IndexError for a target that is no class."""
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise ValueError(
            f"cross_entropy: logits must have shape [rows, classes] with a class at least, got {list(logits.shape)}"
        )
    if target.dtype != torch.int64:
        raise ValueError(f"cross_entropy: target must hold int64 indices of classes, got {target.dtype}")
    require.shape("cross_entropy", "target", target, (logits.shape[0],))
    floats = {"logits": logits} if weight is None else {"logits": logits, "weight": weight}
    require.floating("cross_entropy", **floats)
    require.device("cross_entropy", **floats, target=target)
    if weight is not None:
        require.shape("cross_entropy", "weight", weight, (logits.shape[1],))
    if options.reduction not in REDUCTIONS:
        raise ValueError(f"cross_entropy: reduction must be 'none', 'sum' or 'mean', got {options.reduction!r}")
    if not 0 <= options.label_smoothing <= 1:
        raise ValueError(f"cross_entropy: label_smoothing must be from 0 to 1, got {options.label_smoothing}")
    check_range(target, logits.shape[1], options.ignore_index)


def check_range(target: torch.Tensor, classes: int, ignore_index: int) -> None:
    """Raises IndexError for a target that is no class, where its values can be had without waiting for a device."""
    if target.device.type != "cpu" or torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(target):
        return
    outside = ((target < 0) | (target >= classes)) & (target != ignore_index)
    if outside.any():
        row = int(outside.nonzero()[0])
        raise IndexError(
            f"cross_entropy: target must be below {classes} or ignore_index {ignore_index}, "
            f"got {int(target[row])} in row {row}"
        )


def save_logsumexp(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    """The setup_context of a forward that also returns the logarithms of the rows' sums."""
    _, logsumexp = output
    ctx.mark_non_differentiable(logsumexp)
    ctx.set_materialize_grads(False)
    *tensors, ctx.options = inputs
    ctx.save_for_backward(*tensors, logsumexp)


def weights_of_targets(target: torch.Tensor, weight: torch.Tensor | None, ignore_index: int) -> torch.Tensor:
    """(rows,): 0 where a target is ignored; bool where there are no weights."""
    kept = target != ignore_index
    return kept if weight is None else torch.where(kept, widened(weight)[torch.where(kept, target, 0)], 0)


def reduced(losses: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: Options) -> torch.Tensor:
    """The losses of the rows, 0 where a target is ignored, as one number where it is asked for."""
    if options.reduction == "none":
        return losses
    if options.reduction == "sum":
        return losses.sum()
    return losses.sum() / weights_of_targets(target, weight, options.ignore_index).sum()


def gradients_of_losses(
    grad_output: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: Options
) -> torch.Tensor:
    """(rows,): the gradient of each row's loss, 0 where its target is ignored."""
    grad = widened(grad_output)
    if options.reduction == "mean":
        grad = grad / weights_of_targets(target, weight, options.ignore_index).sum()
    return torch.where(target != options.ignore_index, grad, 0)


def gradient(
    p: torch.Tensor, grad: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, options: Options
) -> torch.Tensor:
    """grad_logits from the probabilities p, (rows, classes), and the gradients of the rows' losses."""
    classes, smoothing = p.shape[1], options.label_smoothing
    kept = (target != options.ignore_index)[:, None]
    of_target = (1 - smoothing) * weights_of_targets(target, weight, options.ignore_index)[:, None].to(p.dtype)
    spread = smoothing / classes if weight is None else smoothing / classes * widened(weight)
    total = smoothing if weight is None else spread.sum()
    is_target = torch.arange(classes, device=p.device) == target[:, None]
    q = torch.where(is_target, of_target, 0) + spread
    return torch.where(kept, grad[:, None] * ((of_target + total) * p - q), 0)
