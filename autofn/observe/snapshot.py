"""Tensors as they were: what writes into them shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Snapshot:
    """Tensors by a name, with a copy of their bits and their version counters as they were."""

    tensors: Mapping[str, torch.Tensor]
    copies: Mapping[str, torch.Tensor]
    versions: Mapping[str, int]

    @classmethod
    def of(cls, tensors: Mapping[str, torch.Tensor]) -> Snapshot:
        copies = {name: bits(t).clone() for name, t in tensors.items()}
        return cls(tensors, copies, {name: t._version for name, t in tensors.items()})

    def change(self) -> str | None:
        """The first tensor that is no longer what it was, in words."""
        for name, tensor in self.tensors.items():
            if not torch.equal(bits(tensor), self.copies[name]):
                return f"the backward changed {name}"
            if tensor._version != self.versions[name]:
                return f"the backward wrote into {name}, with the values that it had"
        return None


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the values: 0 and -0 differ, a NaN equals itself."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
