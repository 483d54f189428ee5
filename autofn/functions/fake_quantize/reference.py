"""The formula of fake quantisation in PyTorch operations, with the intended gradients by detached pairs."""

import torch

from autofn.arithmetic import widened

from .inputs import along, gradient_scale


def fake_quantize(
    x: torch.Tensor, step: torch.Tensor, quant_min: int, quant_max: int, channel: int | None = None
) -> torch.Tensor:
    """`clamp(round(x / step), quant_min, quant_max) * step`, computed in float32 for half types."""
    scale = along(step, x, channel)
    # The same number, with a smaller gradient.
    scale = scale.detach() + (scale - scale.detach()) * gradient_scale(x, quant_max, channel)
    clipped = (widened(x) / scale).clamp(quant_min, quant_max)
    # The rounded number exactly, as in round_ste.
    rounded = clipped + (clipped.round() - clipped).detach()
    return (rounded * scale).to(x.dtype)
