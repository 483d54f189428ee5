"""Both passes of fake quantisation in PyTorch operations: `python` runs them, `fused` compiles them."""

from __future__ import annotations

import torch

from autofn.arithmetic import widened
from autofn.compiled import column_sums

from .inputs import along, gradient_scale

Options = tuple[int, int, int | None]
"""quant_min, quant_max and channel."""


def forward(x: torch.Tensor, step: torch.Tensor, options: Options) -> torch.Tensor:
    """y, in the dtype of x."""
    quant_min, quant_max, channel = options
    scale = along(step, x, channel)
    return ((widened(x) / scale).clamp(quant_min, quant_max).round() * scale).to(x.dtype)


def backward(
    grad_output: torch.Tensor, saved: tuple[torch.Tensor, torch.Tensor], options: Options, needs: tuple[bool, bool]
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The gradients of x and step, those that are needed. saved: x and step."""
    (x, step), (quant_min, quant_max, channel) = saved, options
    scale = along(step, x, channel)
    ratio = widened(x) / scale
    clipped = ratio.clamp(quant_min, quant_max)
    # One comparison for both corners: in compiled code two take twice as long.
    inside = clipped == ratio
    grad_x = grad_step = None
    if needs[0]:
        grad_x = torch.where(inside, grad_output, 0)
    if needs[1]:
        slope = clipped.round() - torch.where(inside, ratio, 0)
        total = column_sums(grad_output * slope, scale.shape) * gradient_scale(x, quant_max, channel)
        grad_step = total.to(step.dtype).reshape(step.shape)
    return grad_x, grad_step
