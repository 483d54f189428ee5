"""What the variants in Python share: the check of the arguments, and which of them the backward needs."""

import torch

from autofn import require


def check(
    input: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor, old_h: torch.Tensor, old_cell: torch.Tensor
) -> None:
    """Raises ValueError where shapes or dtypes do not fit."""
    require.shape("lltm", "input", input, (None, None))
    batch, features = input.shape
    require.shape("lltm", "old_h", old_h, (batch, None))
    state = old_h.shape[1]
    require.shape("lltm", "old_cell", old_cell, (batch, state))
    require.shape("lltm", "weights", weights, (3 * state, state + features))
    require.shape("lltm", "bias", bias, (3 * state,))
    require.floating("lltm", input=input, weights=weights, bias=bias, old_h=old_h, old_cell=old_cell)


def saved(ctx, input, weights, old_h):
    """input, weights and old_h, each None where no gradient is made of it."""
    needs_input, needs_weights, _, needs_h, _ = ctx.needs_input_grad
    return (
        input if needs_weights else None,
        weights if needs_input or needs_h else None,
        old_h if needs_weights else None,
    )


def joined_gradients(grad_gates, weights, state, needs_h, needs_input):
    """The gradients of old_h and input, those that are needed: both come from one product, as views of it."""
    if needs_h and needs_input:
        return grad_gates.mm(weights).tensor_split([state], 1)
    return (
        grad_gates.mm(weights[:, :state]) if needs_h else None,
        grad_gates.mm(weights[:, state:]) if needs_input else None,
    )
