"""What the variants in Python share: the check of the arguments, where a step applies, and what its gradient sums."""

import math

import torch

from autofn import require
from autofn.arithmetic import widened


def check(x: torch.Tensor, step: torch.Tensor, quant_min: int, quant_max: int, channel: int | None) -> None:
    """Raises ValueError where shapes, dtypes, devices or numbers do not fit."""
    require.floating("fake_quantize", x=x, step=step)
    require.device("fake_quantize", x=x, step=step)
    if channel is None:
        if step.shape not in ((), (1,)):
            raise ValueError(f"fake_quantize: step must be one number, got {list(step.shape)}; or give its channel")
    elif not -x.dim() <= channel < x.dim():
        raise ValueError(f"fake_quantize: channel must be a dimension of x, which has {x.dim()}, got {channel}")
    else:
        require.shape("fake_quantize", "step", step, (x.shape[channel],))
    if not quant_min < quant_max:
        raise ValueError(f"fake_quantize: quant_min must be below quant_max, got {quant_min} and {quant_max}")
    require.above_zero("fake_quantize", quant_max=quant_max)


def along(step: torch.Tensor, x: torch.Tensor, channel: int | None) -> torch.Tensor:
    """The steps, widened, in the shape that broadcasts over x."""
    shape = [1] * x.dim()
    if channel is not None:
        shape[channel] = x.shape[channel]
    return widened(step).reshape(shape)


def gradient_scale(x: torch.Tensor, quant_max: int, channel: int | None) -> float:
    """What the gradient of step is multiplied by."""
    sizes = [size for dim, size in enumerate(x.shape) if channel is None or dim != channel % x.dim()]
    return (max(math.prod(sizes), 1) * quant_max) ** -0.5
