"""Memory layouts that a tensor can have, each with values that it can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

# What is around a view in its storage: visible in every result that reads it.
AROUND = float("nan")

Lay = Callable[[torch.Tensor], torch.Tensor | None]


@dataclass(frozen=True)
class Layout:
    """lay: equal values in that layout, or None where a tensor has no such layout. settle: values that it can hold."""

    name: str
    lay: Lay
    settle: Lay = lambda t: t


def layouts_of(tensors: list[torch.Tensor]) -> list[Layout]:
    """The layouts that at least one of the tensors can have."""
    deepest = max((t.dim() for t in tensors), default=0)
    along = [
        Layout(f"expanded along dimension {dim}", _expander(dim), _expander(dim, packed=True)) for dim in range(deepest)
    ]
    return [each for each in (*LAYOUTS, *along) if any(_applies(each, t) for t in tensors)]


def _applies(layout: Layout, t: torch.Tensor) -> bool:
    """Whether a tensor can have the layout and it is another than that of packed memory."""
    settled = layout.settle(t.detach())
    laid = None if settled is None else layout.lay(settled)
    return laid is not None and t.numel() > 1


def strided(t: torch.Tensor) -> torch.Tensor | None:
    """Every second element along the last dimension that has more than one."""
    wide = [dim for dim in range(t.dim()) if t.shape[dim] > 1]
    if not wide:
        return None
    size = list(t.shape)
    size[wide[-1]] *= 2
    room = _room(t, size)
    view = room.unflatten(wide[-1], (t.shape[wide[-1]], 2)).select(wide[-1] + 1, 1)
    return view.copy_(t)


def _columns(t: torch.Tensor) -> torch.Tensor | None:
    """Some columns of wider rows, as `torch.cat` hands its grad_output back."""
    if t.dim() < 2 or not t.numel():
        return None
    room = _room(t, (*t.shape[:-1], t.shape[-1] + 4))
    return room.narrow(-1, 2, t.shape[-1]).copy_(t)


def _offset(t: torch.Tensor) -> torch.Tensor | None:
    """Packed, but not at the begin of its storage; by a multiple of what wider elements are aligned to."""
    return _room(t, (t.numel() + 8,))[8:].view(t.shape).copy_(t)


def _permuted(order: Callable[[int], list[int]], least: int) -> Lay:
    """Packed in another order of the dimensions, for tensors with at least so many of them."""

    def lay(t: torch.Tensor) -> torch.Tensor | None:
        if t.dim() < least:
            return None
        dims = order(t.dim())
        return t.permute(dims).contiguous().permute([dims.index(dim) for dim in range(t.dim())])

    return lay


def _channels_last(t: torch.Tensor) -> torch.Tensor | None:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else None


def _conjugated(t: torch.Tensor) -> torch.Tensor | None:
    """The same values behind the conjugate bit: the memory holds the conjugates."""
    return t.conj().resolve_conj().conj() if t.is_complex() else None


def _first(t: torch.Tensor) -> torch.Tensor | None:
    """The first number in all places, all strides 0: what `.sum()` hands back."""
    return t.reshape(-1)[0].clone().expand(t.shape) if t.dim() and t.numel() and _measures(t) else None


def _expander(dim: int, packed: bool = False) -> Lay:
    """The first entry along a dimension in all its places, with stride 0 or as a packed copy of that."""

    def lay(t: torch.Tensor) -> torch.Tensor | None:
        if dim >= t.dim() or not t.numel() or not _measures(t):
            return None
        expanded = t.narrow(dim, 0, 1).expand(t.shape)
        return expanded.contiguous() if packed else t.narrow(dim, 0, 1).clone().expand(t.shape)

    return lay


def _measures(t: torch.Tensor) -> bool:
    """Whether values may be changed at will: those of indices and masks may not."""
    return t.is_floating_point() or t.is_complex()


def _room(t: torch.Tensor, size: Iterable[int]) -> torch.Tensor:
    """Storage for a view of `t`, filled with what shows where it is read: valid values of integers and masks."""
    size = tuple(size)
    if not t.numel():
        return t.new_empty(size)
    around = AROUND if _measures(t) else t.reshape(-1)[-1].item()
    return torch.full(size, around, dtype=t.dtype, device=t.device)


def _packed_first(t: torch.Tensor) -> torch.Tensor | None:
    first = _first(t)
    return None if first is None else first.contiguous()


STRIDED = Layout("a strided slice", strided)
TRANSPOSED = Layout("transposed", _permuted(lambda dims: list(range(dims))[::-1], 2))
LAYOUTS = (
    STRIDED,
    Layout("a slice of wider rows", _columns),
    Layout("at an offset in its storage", _offset),
    TRANSPOSED,
    Layout("transposed in its last two dimensions", _permuted(lambda n: [*range(n - 2), n - 1, n - 2], 3)),
    Layout("transposed in its first two dimensions", _permuted(lambda n: [1, 0, *range(2, n)], 3)),
    Layout("channels last", _channels_last),
    Layout("a conjugate view", _conjugated),
    Layout("expanded from one number", _first, _packed_first),
)
