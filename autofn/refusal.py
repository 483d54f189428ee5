"""A backward that calls a kernel has no derivative: say so when somebody asks for it, and only then.

`torch.autograd.function.once_differentiable` looks at grad_output alone: with a constant grad_output a gradient
penalty came out 0 without an error. A check of the grad mode refuses a harmless `create_graph=True`. Here the
gradients get a node of their own, linked to all that they depend on, whose backward raises.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(who: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.detach() for tensor in tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.who = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> None:
        raise NotImplementedError(
            f"{ctx.who}: double backward is not implemented; use the python variant, which is differentiable twice"
        )


def refuse_double_backward(who: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a backward so that its result can be used under `create_graph=True` but not differentiated again.

    who: "rms_norm (fused)". The decorated backward runs without grad mode. Differentiating its gradients raises
    NotImplementedError.
    """

    def decorate(backward: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(backward)
        def refusing(ctx: Any, *grad_outputs: torch.Tensor) -> Any:
            if not torch.is_grad_enabled():
                return backward(ctx, *grad_outputs)
            with torch.no_grad():
                found = backward(ctx, *grad_outputs)
            grads = found if isinstance(found, tuple) else (found,)
            sources = [t for t in (*grad_outputs, *ctx.saved_tensors) if t is not None and t.requires_grad]
            if not sources:
                return found
            real = [grad for grad in grads if grad is not None]
            linked = iter(_Refused.apply(who, len(real), *real, *sources))
            return tuple(None if grad is None else next(linked) for grad in grads)

        return refusing

    return decorate
