"""The formula of the linear recurrence in PyTorch operations."""

import torch


def linear_scan(a: torch.Tensor, x: torch.Tensor, initial: torch.Tensor, reverse: bool) -> torch.Tensor:
    """`h[t] = a[t] * h[t - 1] + x[t]`, step by step; from the last step to the first if reverse."""
    state, states = initial, []
    steps = list(zip(a.unbind(1), x.unbind(1), strict=True))
    for coefficient, term in reversed(steps) if reverse else steps:
        state = coefficient * state + term
        states.append(state)
    return torch.stack(states[::-1] if reverse else states, 1)
