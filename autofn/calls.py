"""A Function as a plain call, `autofn.clipped_relu(x, 6.0)`; its keyword `variant` says which implementation runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch

from . import choice, registry
from .spec import dtype_name

AUTO = "auto"
# What "auto" means for other dtypes is looked up at their first call.
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
NO_TENSOR = torch.empty(0)
VARIANT = """variant: "auto", or one of {variants}.
    "auto" is the fastest by measurement for device, dtype and size, of those that run here and compile nothing at their
    first call. A second derivative and torch.func.grad need "python", "native" or "eager", vmap and jvp one of the two
    last. Raises LookupError for a variant that does not exist, NotImplementedError with the reason for one that cannot
    run here.
"""

Apply = Callable[..., Any]

# One callable a variant: a compiled one keeps what it compiled.
_load = cache(registry.load)


@cache
def function(name: str) -> Apply:
    """The Function with the arguments of its reference, and `variant`. Raises LookupError for an unknown Function.

    Whatever can run here is loaded now, so that even the first call may lie inside a compiled region.
    """
    signature = inspect.signature(registry.spec(name).reference)
    arguments = _Arguments(name, signature)
    position = arguments.position(choice.read(name).elements_of)
    devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    loaded = {(device, each): _load(name, each, device) for device in devices for each in choice.runnable(name, device)}
    by_size = {(device, dtype): _by_size(name, device, dtype) for device in devices for dtype in DTYPES}

    def call(*args: Any, variant: str = AUTO, **named: Any) -> Any:
        if named or len(args) != len(arguments.names):
            args = arguments.by_position(args, named)
        lead = args[position] if isinstance(args[position], torch.Tensor) else _first_tensor(args)
        device = lead.device.type
        if variant != AUTO:
            return (loaded.get((device, variant)) or _load(name, variant, device))(*args)
        elements = lead.numel()
        for least, apply in by_size.get((device, lead.dtype)) or _by_size(name, device, lead.dtype):
            if elements >= least:
                return apply(*args)

    return _described(call, name, signature)


def forget() -> None:
    """Loads all anew at the next use; for when the registry finds other Functions."""
    for cached in (function, _by_size, _load):
        cached.cache_clear()


class _Arguments:
    """The arguments of a reference; an autograd.Function takes all of them, by position."""

    def __init__(self, function: str, signature: inspect.Signature) -> None:
        self.function = function
        self.signature = signature
        self.names = tuple(signature.parameters)
        self.defaults = {
            name: each.default for name, each in signature.parameters.items() if each.default is not each.empty
        }

    def position(self, name: str) -> int:
        return self.names.index(name) if name else 0

    def by_position(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Raises TypeError for arguments that do not fit. Signature.bind alone would take three times as long."""
        rest = self.names[len(args) :]
        values = {**self.defaults, **named}
        if len(args) > len(self.names) or any(n not in values for n in rest) or any(n not in rest for n in named):
            self._refuse(args, named)
        return (*args, *(values[name] for name in rest))

    def _refuse(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        try:
            self.signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{self.function}: {error}; its arguments are {', '.join(self.names)}") from None


@cache
def _by_size(name: str, device: str, dtype: torch.dtype) -> tuple[tuple[int, Apply], ...]:
    """(elements, the variant from there on), the largest size first; the last is from 0 on."""
    steps = choice.steps(name, device, dtype_name(dtype))
    return tuple((least, _load(name, variant, device)) for least, variant in reversed(steps))


def _first_tensor(args: tuple[Any, ...]) -> torch.Tensor:
    """What says where to run if the measured argument is no tensor; if none is, the variant itself objects."""
    return next((arg for arg in args if isinstance(arg, torch.Tensor)), NO_TENSOR)


def _described(call: Apply, name: str, signature: inspect.Signature) -> Apply:
    keyword = inspect.Parameter("variant", inspect.Parameter.KEYWORD_ONLY, default=AUTO, annotation=str)
    variants = ", ".join(f'"{found.name}"' for found in registry.variants(name))
    call.__name__ = call.__qualname__ = name
    call.__module__ = __package__
    call.__doc__ = f"{registry.documentation(name)}\n\n{VARIANT.format(variants=variants)}"
    call.__signature__ = signature.replace(parameters=[*signature.parameters.values(), keyword])  # type: ignore[attr-defined]
    return call
