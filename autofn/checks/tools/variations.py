"""Other arguments made from the given ones: at other sizes, elements drawn from the values that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..subject import Inputs

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
Sizes = Mapping[int, int]
"""By old size of a dimension: its new size. One mapping for all arguments keeps what belongs together together."""


def sizes_of(inputs: Inputs) -> tuple[int, ...]:
    """The distinct sizes of the dimensions of all tensors among the arguments, largest tensors first."""
    tensors = sorted(tensors_of(inputs), key=lambda t: -t.numel())
    return tuple(dict.fromkeys(size for t in tensors for size in t.shape))


def tensors_of(inputs: Inputs) -> list[torch.Tensor]:
    """All tensors among the arguments, those in lists and dicts too."""
    return [t for t in pytree.tree_leaves(inputs) if isinstance(t, torch.Tensor)]


def resized(inputs: Inputs, sizes: Sizes, *, numbers: bool = False, seed: int = 5) -> Inputs:
    """The arguments at other sizes, each element drawn from those of its tensor.

    numbers: whether Python integers that equal an old size follow it, such as the number of rows of a table.
    """
    generator = torch.Generator().manual_seed(seed)

    def changed(t: Any) -> Any:
        if isinstance(t, torch.Tensor):
            return _drawn(t, sizes, generator)
        if numbers and isinstance(t, int) and not isinstance(t, bool):
            return sizes.get(t, t)
        return t

    return pytree.tree_map(changed, inputs)


def out_of_range(inputs: Inputs, old: int, new: int) -> bool:
    """Whether integers among the arguments may be indices into a dimension that is now too small for them.

    Not every kernel looks before it reads and writes outside its memory.
    """
    whole = [t for t in tensors_of(inputs) if t.dtype in INTEGERS and t.numel()]
    return any(bool((t < old).all()) and bool((t >= new).any()) for t in whole)


def replaced(inputs: Inputs, places: Mapping[int, Any]) -> Inputs:
    """The arguments with others at some positions; a tensor keeps its dtype and whether it requires grad."""
    return tuple(_like(places[place], t) if place in places else t for place, t in enumerate(inputs))


def floats(inputs: Inputs) -> list[int]:
    """Positions of the floating (or complex) tensors that have elements."""
    return [place for place, t in enumerate(inputs) if is_float(t) and t.numel()]


def is_float(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and (t.dtype.is_floating_point or t.dtype.is_complex)


def mapped(inputs: Inputs, place: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """The arguments with one tensor changed; `change` gets a copy of its values."""
    return replaced(inputs, {place: change(inputs[place].detach().clone())})


def _like(new: Any, old: Any) -> Any:
    if not isinstance(new, torch.Tensor) or not isinstance(old, torch.Tensor):
        return new
    return new.detach().to(old.device, old.dtype).requires_grad_(old.requires_grad)


def _drawn(t: torch.Tensor, sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
    if not any(size in sizes for size in t.shape):
        return t.detach().clone().requires_grad_(t.requires_grad)
    shape = torch.Size(sizes.get(size, size) for size in t.shape)
    count = shape.numel()
    values = t.detach().reshape(-1)
    if not t.numel():
        found = torch.ones(shape, dtype=t.dtype, device=t.device)
    elif _continuous(values):
        found = _between(values, count, generator).reshape(shape)
    else:
        index = torch.randint(values.numel(), (count,), generator=generator).to(t.device)
        found = values[index].reshape(shape)
    return _like(found, t)


def _continuous(values: torch.Tensor) -> bool:
    """Whether the values are real numbers that all differ: drawing them again would make ties that were none."""
    return values.dtype.is_floating_point and values.unique().numel() == values.numel() > 1


def _between(values: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Numbers of the same distribution: drawn between neighbours of the sorted values, so never beyond them."""
    ordered = values.double().sort().values
    at = torch.rand(count, generator=generator, dtype=torch.float64).to(values.device) * (ordered.numel() - 1)
    low = at.long()
    return torch.lerp(ordered[low], ordered[(low + 1).clamp(max=ordered.numel() - 1)], at - low)
