"""What the variants in Python share: the check of the arguments."""

from typing import Any, NamedTuple

import torch

from autofn import require

WHO = "linear_cross_entropy"
REDUCTIONS = ("mean", "sum")


class Options(NamedTuple):
    """What is no tensor. needs_hidden, needs_weight: the gradients that a forward is to compute."""

    ignore_index: int
    reduction: str
    needs_hidden: bool
    needs_weight: bool


def options(hidden: torch.Tensor, weight: torch.Tensor, ignore_index: int, reduction: str) -> Options:
    """The options of a call; no gradient is needed where none is recorded."""
    recorded = torch.is_grad_enabled()
    return Options(ignore_index, reduction, recorded and hidden.requires_grad, recorded and weight.requires_grad)


def check(hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, options: Any) -> None:
    """Raises ValueError where an argument does not fit, IndexError for a target that is not in the vocabulary."""
    require.shape(WHO, "hidden", hidden, (None, None))
    require.shape(WHO, "weight", weight, (None, hidden.shape[1]))
    if weight.shape[0] == 0:
        raise ValueError(f"{WHO}: weight must have a row at least, got {list(weight.shape)}")
    require.shape(WHO, "target", target, (hidden.shape[0],))
    require.floating(WHO, hidden=hidden, weight=weight)
    if target.dtype != torch.int64:
        raise ValueError(f"{WHO}: target must hold int64 indices, got {target.dtype}")
    require.device(WHO, hidden=hidden, weight=weight, target=target)
    if options.reduction not in REDUCTIONS:
        raise ValueError(f"{WHO}: reduction must be 'mean' or 'sum', got {options.reduction!r}")
    check_range(target, weight.shape[0], options.ignore_index)


def check_range(target: torch.Tensor, vocabulary: int, ignore_index: int) -> None:
    """Raises IndexError for a target outside the vocabulary, where its values are there to be seen."""
    if target.device.type != "cpu" or torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(target):
        return
    outside = ((target < 0) | (target >= vocabulary)) & (target != ignore_index)
    if outside.any():
        row = int(outside.nonzero()[0])
        raise IndexError(
            f"{WHO}: target must be below {vocabulary} or ignore_index {ignore_index}, got {int(target[row])} "
            f"in row {row}"
        )
