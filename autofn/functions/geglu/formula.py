"""The two passes in PyTorch operations, and the check of the arguments: `python` runs them, `fused` compiles them."""

import math
from collections.abc import Callable

import torch

from autofn import require
from autofn.arithmetic import widened

Map = Callable[[torch.Tensor], torch.Tensor]

# From here on p is 0 or 1 and does not change, in float64 too.
FAR = 40.0


def check(gate: torch.Tensor, up: torch.Tensor, approximate: str) -> None:
    """Raises ValueError where dtypes, shapes, devices or the approximation do not fit."""
    require.floating("geglu", gate=gate, up=up)
    require.same_shape("geglu", gate=gate, up=up)
    require.device("geglu", gate=gate, up=up)
    if approximate not in ("none", "tanh"):
        raise ValueError(f"geglu: approximate must be 'none' or 'tanh', got {approximate!r}")


def twice_u(x):
    """The argument of the sigmoid, and its derivative in x."""
    scale = 2 * math.sqrt(2 / math.pi)
    square = x.square()
    return scale * x * (1 + 0.044715 * square), scale * (1 + 3 * 0.044715 * square)


def normal_cdf(x):
    """The cumulative distribution of the normal, which keeps its digits below zero."""
    return 0.5 * torch.special.erfc(-math.sqrt(0.5) * x)


def proportion(x, approximate, cdf):
    """p(x) of gelu(x) = x * p(x)."""
    if approximate == "none":
        return cdf(x)
    return torch.sigmoid(twice_u(x)[0])


def x_times_slope(x, approximate):
    """x * p'(x)."""
    if approximate == "none":
        return x * torch.exp(-0.5 * x.square()) / math.sqrt(2 * math.pi)
    argument, slope = twice_u(x)
    return x * slope * torch.sigmoid(argument) * torch.sigmoid(-argument)


def forward(gate, up, approximate, cdf: Map = normal_cdf):
    wide = widened(gate)
    return (wide.clamp(min=-FAR) * proportion(wide.clamp(-FAR, FAR), approximate, cdf) * up).to(gate.dtype)


def backward(grad_output, gate, up, approximate, needs_up, cdf: Map = normal_cdf):
    """grad_gate where up is given, grad_up where it is needed; None for the other."""
    grad, wide = widened(grad_output), widened(gate)
    x = wide.clamp(-FAR, FAR)
    p = proportion(x, approximate, cdf)
    grad_gate = grad_up = None
    if up is not None:
        grad_gate = (grad * up * (p + x_times_slope(x, approximate))).to(gate.dtype)
    if needs_up:
        grad_up = (grad * wide.clamp(min=-FAR) * p).to(gate.dtype)
    return grad_gate, grad_up
