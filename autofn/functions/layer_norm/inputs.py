"""What the variants in Python share: the check of the arguments, and the float type of the arithmetic."""

from typing import Any

import torch

from autofn import require


def check(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> None:
    """Raises ValueError where shapes, dtypes, devices or eps do not fit."""
    if x.dim() == 0:
        raise ValueError("layer_norm: x must have at least one dimension, got a scalar")
    require.shape("layer_norm", "weight", weight, (x.shape[-1],))
    require.shape("layer_norm", "bias", bias, (x.shape[-1],))
    require.floating("layer_norm", x=x, weight=weight, bias=bias)
    require.device("layer_norm", x=x, weight=weight, bias=bias)
    require.above_zero("layer_norm", eps=eps)


def needed(
    needs_input_grad: tuple[bool, ...], x: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """x and weight as the backward needs them: None where it does not."""
    needs_x, needs_weight, *_ = needs_input_grad
    return x if needs_x or needs_weight else None, weight if needs_x else None


def save_moments(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    """The setup_context of a forward that also returns mean and inverse: saves x, weight and these two where needed."""
    _, mean, inverse = output
    ctx.mark_non_differentiable(mean, inverse)
    ctx.set_materialize_grads(False)
    x, weight = needed(ctx.needs_input_grad, *inputs[:2])
    ctx.save_for_backward(x, weight, *((None, None) if x is None else (mean, inverse)))
