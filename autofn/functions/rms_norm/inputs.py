"""What the variants in Python share: the check of the arguments, the float type of the arithmetic, what is saved."""

from typing import Any

import torch

from autofn import require


def check(x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    """Raises ValueError where shapes, dtypes or eps do not fit."""
    if x.dim() == 0:
        raise ValueError("rms_norm: x must have at least one dimension, got a scalar")
    require.shape("rms_norm", "weight", weight, (x.shape[-1],))
    require.floating("rms_norm", x=x, weight=weight)
    require.above_zero("rms_norm", eps=eps)


def save_inverse(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    """The setup_context of a forward that also returns r: saves x, weight where x needs a gradient, and r."""
    x, weight, _ = inputs
    _, inverse = output
    ctx.mark_non_differentiable(inverse)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight if ctx.needs_input_grad[0] else None, inverse)
