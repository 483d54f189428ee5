"""Arguments with one dimension made longer by repeating what is there: still valid values, of any meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import log2
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .subject import Inputs

# Rows over which a running sum in bfloat16 (8 bits) stops growing many times over, in a fraction of a second.
ROWS = 4096
# Less than this many times longer says nothing.
LEAST = 64
# Elements that one forward and backward may write, some milliseconds; a call of an operation counts for some.
WORK = 1 << 22
CALL = 1 << 9

Counts = tuple[int, int]
Make = Callable[[int], Inputs]


def grown(inputs: Inputs) -> Iterator[tuple[int, Make]]:
    """For each size among the arguments' dimensions: (size, make), where `make(length)` has that size made longer.

    All dimensions of one size are taken for one; the first dimensions alone are offered too, for two sizes may be
    equal by chance. Whether anything fits those arguments is for the caller to see.
    """
    sizes = {size for t in inputs if isinstance(t, torch.Tensor) for size in t.shape if size > 1}
    for size in sorted(sizes):
        for places in dict.fromkeys(_places(inputs, size, only_first) for only_first in (False, True)):
            if places:
                yield size, partial(_longer, inputs, places, size)


def affordable(run: Callable[[int], Any], size: int) -> int:
    """The longest multiple of `size` that `run(length)` can be called with, by the work of two short runs; 0 if none.

    The work is counted, not timed: the answer is the same on a busy machine.
    """
    short, twice = (_work(run, size * each) for each in (8, 16))
    length = ROWS
    while length and _foreseen(short, twice, length / (8 * size)) > WORK:
        length //= 2
    return length // size * size if length >= LEAST * size else 0


def _foreseen(short: Counts, twice: Counts, longer: float) -> float:
    """The work of a run so many times longer than the short one: elements and calls each grow by a power of it."""
    elements, calls = (
        first * longer ** max(0.0, log2(second / first)) for first, second in zip(short, twice, strict=True)
    )
    return elements + CALL * calls


class _Work(TorchFunctionMode):
    """Counts the elements that operations return, and the operations, as far as they are called from Python.

    A TorchDispatchMode would see all of them, and import Dynamo: more than a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elements = self.calls = 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tensors = found if isinstance(found, (tuple, list)) else (found,)
        self.elements += sum(t.numel() for t in tensors if isinstance(t, torch.Tensor))
        self.calls += 1
        return found


def _work(run: Callable[[int], Any], length: int) -> Counts:
    with _Work() as counted:
        run(length)
    return counted.elements, counted.calls


def _places(inputs: Inputs, size: int, only_first: bool) -> tuple[tuple[int, int], ...]:
    """(argument, dimension) wherever that size stands."""
    return tuple(
        (at, dim)
        for at, t in enumerate(inputs)
        if isinstance(t, torch.Tensor)
        for dim in range(min(t.dim(), 1) if only_first else t.dim())
        if t.shape[dim] == size
    )


def _longer(inputs: Inputs, places: tuple[tuple[int, int], ...], size: int, length: int) -> Inputs:
    longer = list(inputs)
    for at in {at for at, _ in places}:
        t = longer[at]
        repeats = [length // size if (at, dim) in places else 1 for dim in range(t.dim())]
        longer[at] = t.detach().repeat(repeats).requires_grad_(t.requires_grad)
    return tuple(longer)
