"""Arguments with one dimension made longer by repeating what is there: still valid values, of any meaning."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from ..subject import Inputs

# Rows over which a running sum in bfloat16 (8 bits) stops growing many times over, in a fraction of a second.
ROWS = 4096
# Less than this many times longer says nothing.
LEAST = 64
# Processor seconds that one forward and backward may take: about twenty of them are made for a size.
SECONDS = 0.02

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
    """The longest multiple of `size` for which `run(length)` takes no more than SECONDS; 0 where that says nothing."""
    length = 8 * size
    run(length)  # what is loaded and prepared at a first call
    while 2 * length <= ROWS and _seconds(run, length) < SECONDS / 2:
        length *= 2
    return length if length >= LEAST * size else 0


def _seconds(run: Callable[[int], Any], length: int) -> float:
    """Processor time: on a busy machine the answer is much the same."""
    begin = time.process_time()
    run(length)
    return time.process_time() - begin


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
