"""The turn in PyTorch operations, which `python` runs and `fused` compiles, and the checks of the arguments."""

from typing import Any

import torch

from autofn import require
from autofn.arithmetic import widened


def check(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> None:
    """Raises ValueError where shapes, dtypes or devices do not fit."""
    if x.dim() < 2:
        raise ValueError(f"rope: x must have at least two dimensions, got {list(x.shape)}")
    positions, features = x.shape[-2:]
    require.shape("rope", "cos", cos, (positions, None))
    require.same_shape("rope", cos=cos, sin=sin)
    if 2 * cos.shape[1] > features:
        raise ValueError(f"rope: cos must hold at most features / 2 pairs, got {cos.shape[1]} for {features} features")
    require.floating("rope", x=x, cos=cos, sin=sin)
    require.device("rope", x=x, cos=cos, sin=sin)


def refuse_gradients_of_tables(ctx: Any) -> None:
    """Raises ValueError where cos or sin requires grad: it would silently get none."""
    for name, needed in zip(("cos", "sin"), ctx.needs_input_grad[1:3], strict=True):
        if needed:
            raise ValueError(f"rope: {name} must not require grad, it has no gradient here; hand in {name}.detach()")


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool, opposite: bool) -> torch.Tensor:
    """Each pair turned by its angle, or by the opposite one; computed in float32 for half types."""
    pairs = cos.shape[1]
    turned, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    wide = widened(turned)
    a, b = (wide[..., 0::2], wide[..., 1::2]) if interleaved else (wide[..., :pairs], wide[..., pairs:])
    sign = -1 if opposite else 1
    both = torch.addcmul(a * cos, b, sin, value=-sign), torch.addcmul(b * cos, a, sin, value=sign)
    parts = [torch.stack(both, -1).flatten(-2)] if interleaved else both
    return torch.cat([*(part.to(x.dtype) for part in parts), rest], -1)
