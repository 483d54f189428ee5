"""`saved_bytes`: what autograd keeps from the forward to the backward, as the saved-tensor hooks see it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..case import Case, Outputs, as_tuple
from ..spec import dtype_name


@dataclass(frozen=True)
class SavedTensor:
    """One storage that a graph keeps, and its size. alias: "input 0", "output 1", "older" or "new"."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    alias: str


def ledger(case: Case) -> list[SavedTensor]:
    """The saved tensors of one forward, each storage once, in the order in which they were saved.

    A tensor on `ctx` or in a closure is not seen by the hooks. "older" is a storage that two calls save alike and that
    is no input's: a constant that was there before. Source:
    https://docs.pytorch.org/docs/stable/autograd.html#saved-tensors-default-hooks
    """
    before, _ = _saved(case)
    seen, outputs = _saved(case)
    # Storages of no bytes have no address to be told apart by.
    owners = {_storage(t): "older" for t in before if _storage(t)}
    owners |= {_storage(t): f"output {i}" for i, t in enumerate(outputs)}
    owners |= {_storage(t): f"input {i}" for i, t in enumerate(case.inputs) if isinstance(t, torch.Tensor)}
    entries: dict[int, torch.Tensor] = {}
    for tensor in seen:
        entries.setdefault(_storage(tensor), tensor)
    return [
        SavedTensor(tuple(t.shape), dtype_name(t.dtype), t.untyped_storage().nbytes(), owners.get(address, "new"))
        for address, t in entries.items()
    ]


def _saved(case: Case) -> tuple[list[torch.Tensor], Outputs]:
    """The tensors that one forward saves, kept alive so that no address is used twice, and its outputs.

    The graph keeps None instead: a graph that kept its own output would be a cycle that nothing frees.
    """
    seen: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(seen.append, lambda packed: packed):
        outputs = as_tuple(case.apply(*case.inputs))
    return seen, outputs


def saved_bytes(entries: list[SavedTensor]) -> int:
    """Bytes of all saved storages, inputs and outputs among them."""
    return sum(entry.bytes for entry in entries)


def saved_new_bytes(entries: list[SavedTensor]) -> int:
    """Bytes that exist only because of the backward: saved storages that are neither an input's nor an output's."""
    return sum(entry.bytes for entry in entries if entry.alias == "new")


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
