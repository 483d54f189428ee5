"""Where data and code lie in memory: drawn anew for every sample or process, so that a time is not that of one place.

A time depends on the place. `rms_norm` (native, small) takes 22.7 us where its output begins 0x240 beyond its input
within a page, else 27 us. malloc is deterministic, so processes forked from one interpreter get the same places, agree
with each other, and differ from those of the next interpreter. Code lies where the page cache holds its file,
for all processes and for hours: of two extensions alike byte for byte one took 4.5 % longer for the backward of
`layer_norm` (cpp, small) in each of 24 interpreters, until its file was read anew.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, replace
from mmap import PROT_EXEC, PROT_READ, PROT_WRITE
from pathlib import Path
from typing import Any

import torch

from ..case import Case

PAGE = 4096
# What PyTorch aligns to, and a line of the cache.
ALIGNMENT = 64
# A copy of 1 MB takes 0.1 ms, a tenth of a sample. What is larger streams through the caches wherever it lies, and a
# second copy of a large case would not go unnoticed.
LARGEST_BYTES = 1 << 20


class Placement:
    """Places a case again and again. The values are those that the case had at first, whatever has been done since."""

    def __init__(self, case: Case, draw: random.Random) -> None:
        self.draw = draw
        self.original = case
        self.blocks: list[Any] = []
        tensors = [value for value in (*case.inputs, *case.grad_outputs) if isinstance(value, torch.Tensor)]
        movable = [t for t in tensors if _is_movable(t) and _is_alone(t, tensors)]
        if case.key.device != "cpu" or sum(map(_bytes, movable)) > LARGEST_BYTES:
            movable = []
        self.slots = {id(t): _Slot(t) for t in movable}
        self.shaken = [_bytes(t) for t in movable]

    def next(self) -> Case:
        """The case with its tensors at new places, equal in values, flags and layout.

        Also occupies memory at random, so that outputs and what lies between come to lie elsewhere too.
        """
        if not self.slots:
            return self.original
        self._shake()
        return replace(
            self.original,
            inputs=tuple(map(self._placed, self.original.inputs)),
            grad_outputs=tuple(map(self._placed, self.original.grad_outputs)),
        )

    def _placed(self, value: Any) -> Any:
        slot = self.slots.get(id(value))
        return value if slot is None else slot.place(ALIGNMENT * self.draw.randrange(PAGE // ALIGNMENT))

    def _shake(self) -> None:
        """Frees what it held and takes other blocks, some small, some of about the size of the case's tensors."""
        self.blocks.clear()
        for size in (0, *self.shaken):
            for _ in range(self.draw.randrange(1, 4)):
                self.blocks.append(bytearray(self.draw.randrange(ALIGNMENT, PAGE)))
                less = ALIGNMENT * self.draw.randrange(PAGE // ALIGNMENT)
                self.blocks.append(torch.empty(max(ALIGNMENT, size - less), dtype=torch.uint8))


def shake_heap(draw: random.Random) -> list[Any]:
    """Blocks of random sizes, for the start of a process: as long as they are kept, others lie elsewhere."""
    small = [bytearray(draw.randrange(16, PAGE // 2)) for _ in range(draw.randrange(1, 200))]
    sizes = [draw.randrange(ALIGNMENT, 32 * PAGE) for _ in range(draw.randrange(1, 40))]
    return [*small, *(torch.empty(size, dtype=torch.uint8) for size in sizes)]


def move_code(file: str) -> int:
    """Gives the code and constants of a loaded library other pages, this process's own; how many bytes they are.

    A page of a private mapping is copied when it is written to, which is done with what it holds already. 0 where the
    library is not loaded, or the system has no `/proc` or does not let code be written.
    """
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    # Begin and end, permissions, offset, device, inode, path.
    fields = [line.split(maxsplit=5) for line in lines if line.endswith(f" {file}")]
    return sum(_copied(span, flags) for span, flags, *_ in fields)


def _copied(span: str, flags: str) -> int:
    """How many bytes it copied of a line of /proc/self/maps, such as "7f00-8f00" "r-xp": none of what is writable."""
    if not flags.startswith("r-") or not flags.endswith("p"):
        return 0
    begin, end = (int(address, 16) for address in span.split("-"))
    libc, size = ctypes.CDLL(None), end - begin
    own = PROT_READ | (PROT_EXEC if "x" in flags else 0)
    if libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), own | PROT_WRITE):
        return 0
    held = memoryview((ctypes.c_char * size).from_address(begin)).cast("B")
    held[::PAGE] = bytes(held[::PAGE])
    libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), own)
    return size


@dataclass
class _Slot:
    """Memory for one tensor with room to shift it by a page."""

    tensor: torch.Tensor

    def __post_init__(self) -> None:
        self.memory = bytearray(_bytes(self.tensor) + 2 * PAGE)
        # Where the first whole page begins.
        self.begin = -ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) % PAGE

    def place(self, offset: int) -> torch.Tensor:
        """A leaf with the tensor's values at that offset within a page."""
        flat = torch.frombuffer(
            self.memory, dtype=self.tensor.dtype, count=self.tensor.numel(), offset=self.begin + offset
        )
        placed = flat.view(self.tensor.shape)
        placed.copy_(self.tensor.detach())
        return placed.requires_grad_(self.tensor.requires_grad)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_movable(tensor: torch.Tensor) -> bool:
    """Whether a copy elsewhere is the same for whoever calls: a plain dense leaf that has all of its storage."""
    return (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_leaf
        and tensor.is_contiguous()
        and 0 < _bytes(tensor) == tensor.untyped_storage().nbytes()
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def _is_alone(tensor: torch.Tensor, among: list[torch.Tensor]) -> bool:
    """Whether no other of them shares its memory."""
    mine = tensor.untyped_storage().data_ptr()
    strided = [t for t in among if t.layout == torch.strided]
    return sum(t.untyped_storage().data_ptr() == mine for t in strided) == 1
