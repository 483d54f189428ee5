"""The two passes in PyTorch operations, and the check of the arguments: `python` runs them, `fused` compiles them."""

import torch

from autofn import require
from autofn.arithmetic import widened


def check(gate: torch.Tensor, up: torch.Tensor) -> None:
    """Raises ValueError where dtypes, shapes or devices do not fit."""
    require.floating("swiglu", gate=gate, up=up)
    require.same_shape("swiglu", gate=gate, up=up)
    require.device("swiglu", gate=gate, up=up)


def forward(gate, up):
    wide = widened(gate)
    return (wide * torch.sigmoid(wide) * up).to(gate.dtype)


def backward(grad_output, gate, up, needs_up):
    """grad_gate where up is given, grad_up where it is needed; None for the other."""
    grad, wide = widened(grad_output), widened(gate)
    s = torch.sigmoid(wide)
    silu = wide * s
    grad_gate = grad_up = None
    if up is not None:
        grad_gate = (grad * up * (s + silu * (1 - s))).to(gate.dtype)
    if needs_up:
        grad_up = (grad * silu).to(gate.dtype)
    return grad_gate, grad_up
