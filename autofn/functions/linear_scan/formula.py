"""The two passes in PyTorch operations, which `python` runs and `fused` compiles, and the check of the arguments."""

from typing import Any

import torch
import torch.nn.functional as F

from autofn import require
from autofn.arithmetic import widened

# Steps that are taken one after the other, of all blocks at once. Few: each is an operation, and code to compile.
STEPS = 8

Step = tuple[torch.Tensor, torch.Tensor]


def check(a: torch.Tensor, x: torch.Tensor, initial: torch.Tensor) -> None:
    """Raises ValueError where shapes, dtypes or devices do not fit."""
    require.shape("linear_scan", "a", a, (None, None, None))
    if a.shape[1] == 0:
        raise ValueError(f"linear_scan: time must be at least one step, got a {list(a.shape)}")
    require.same_shape("linear_scan", a=a, x=x)
    require.shape("linear_scan", "initial", initial, (a.shape[0], a.shape[2]))
    require.floating("linear_scan", a=a, x=x, initial=initial)
    require.device("linear_scan", a=a, x=x, initial=initial)


def saved(ctx: Any, a: torch.Tensor, initial: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """a, initial and h; the last two None where a needs no gradient."""
    needs_a = ctx.needs_input_grad[0]
    return a, initial if needs_a else None, h if needs_a else None


def forward(a: torch.Tensor, x: torch.Tensor, initial: torch.Tensor, reverse: bool) -> torch.Tensor:
    return scan(widened(a), widened(x), widened(initial), reverse).to(x.dtype)


def backward(scan, grad_h, a, initial, h, reverse, needed):
    """The gradients of a, x and initial, None for those not needed; initial and h are None where that of a is not.

    scan: `scan` of this module, or an equal that can be differentiated.
    """
    needs_a, needs_x, needs_initial = needed
    grad, wide = widened(grad_h), widened(a)
    nothing = torch.zeros_like(wide[:, 0])
    g = scan(before(wide, nothing, not reverse), grad, nothing, not reverse)
    first = -1 if reverse else 0
    return (
        (g * before(h, initial, reverse)).to(a.dtype) if needs_a else None,
        g.to(a.dtype) if needs_x else None,
        (wide[:, first] * g[:, first]).to(a.dtype) if needs_initial else None,
    )


def before(h: torch.Tensor, initial: torch.Tensor, reverse: bool) -> torch.Tensor:
    """The state before each step."""
    first = initial.unsqueeze(1)
    return torch.cat([h[:, 1:], first] if reverse else [first, h[:, :-1]], 1)


def scan(a: torch.Tensor, x: torch.Tensor, initial: torch.Tensor, reverse: bool) -> torch.Tensor:
    """h by blocks of STEPS steps: what each does to a state, then the states between them, then those within."""
    time = a.shape[1]
    if time <= STEPS:
        return stacked(states(steps(a, x, 1, reverse), initial), 1, reverse)
    a, x = in_blocks(a, 1, reverse), in_blocks(x, 0, reverse)
    # A block makes `product * state + total` of the state before it.
    (product, total), *others = steps(a, x, 2, reverse)
    for coefficient, term in others:
        product, total = coefficient * product, torch.addcmul(term, coefficient, total)
    ends = scan(product, total, initial, reverse)
    h = stacked(states(steps(a, x, 2, reverse), before(ends, initial, reverse)), 2, reverse).flatten(1, 2)
    return h[:, -time:] if reverse else h[:, :time]


def in_blocks(tensor: torch.Tensor, value: float, reverse: bool) -> torch.Tensor:
    """(batch, blocks, STEPS, channels), filled up with `value` behind the last step."""
    missing = -tensor.shape[1] % STEPS
    if missing:
        tensor = F.pad(tensor, (0, 0, missing, 0) if reverse else (0, 0, 0, missing), value=value)
    return tensor.unflatten(1, (-1, STEPS))


def steps(a: torch.Tensor, x: torch.Tensor, dim: int, reverse: bool) -> list[Step]:
    """The coefficient and the term of each step along `dim`, in the order in which the steps are taken."""
    found = list(zip(a.unbind(dim), x.unbind(dim), strict=True))
    return found[::-1] if reverse else found


def states(taken: list[Step], state: torch.Tensor) -> list[torch.Tensor]:
    """The state after each step."""
    found = []
    for coefficient, term in taken:
        state = torch.addcmul(term, coefficient, state)
        found.append(state)
    return found


def stacked(tensors: list[torch.Tensor], dim: int, reverse: bool) -> torch.Tensor:
    return torch.stack(tensors[::-1] if reverse else tensors, dim)
