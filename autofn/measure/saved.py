"""`saved_bytes`: what autograd keeps from the forward to the backward, as the saved-tensor hooks see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..case import Case, as_tuple
from ..spec import dtype_name


@dataclass(frozen=True)
class SavedTensor:
    """One storage that a graph keeps. `alias` is "input 0", "output 1" or "new"; bytes is the storage's size."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    alias: str


def ledger(case: Case) -> list[SavedTensor]:
    """The saved tensors of one forward, each storage once, in the order in which they were saved.

    A tensor on `ctx` or in a closure is not seen by the hooks. Source:
    https://docs.pytorch.org/docs/stable/autograd.html#saved-tensors-default-hooks
    """
    seen: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = as_tuple(case.apply(*case.inputs))
    owners = {_storage(t): f"output {i}" for i, t in enumerate(outputs)}
    owners |= {_storage(t): f"input {i}" for i, t in enumerate(case.inputs) if isinstance(t, torch.Tensor)}
    # `seen` keeps every tensor alive, so no address is used twice.
    entries: dict[int, torch.Tensor] = {}
    for tensor in seen:
        entries.setdefault(_storage(tensor), tensor)
    return [
        SavedTensor(tuple(t.shape), dtype_name(t.dtype), t.untyped_storage().nbytes(), owners.get(address, "new"))
        for address, t in entries.items()
    ]


def saved_bytes(entries: list[SavedTensor]) -> int:
    """Bytes of all saved storages, inputs and outputs among them."""
    return sum(entry.bytes for entry in entries)


def saved_new_bytes(entries: list[SavedTensor]) -> int:
    """Bytes that exist only because of the backward: saved storages that are neither an input's nor an output's."""
    return sum(entry.bytes for entry in entries if entry.alias == "new")


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
