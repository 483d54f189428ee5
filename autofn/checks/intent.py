"""What a Function means to do where that cannot be read from its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Intent:
    """What is on purpose. The defaults claim nothing: an ordinary differentiable function.

    surrogate: the gradient is intentionally not the derivative (a straight-through estimator). surrogate_of: the
        function whose derivative it is instead, where one is known.
    random: two calls differ by design. mutates: positions of arguments that the forward writes to.
    once_differentiable: the second derivative is refused with an error.
    views: positions of arguments that an output views.
    """

    surrogate: bool = False
    surrogate_of: Callable[..., Any] | None = None
    random: bool = False
    mutates: tuple[int, ...] = ()
    once_differentiable: bool = False
    views: tuple[int, ...] = ()
