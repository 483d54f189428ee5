"""One timed sample of a case in a phase. Each function says what its time includes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat

import torch

from ..case import Case, as_tuple
from .purity import shown_pure

Clock = Callable[[], float]

# Graphs built ahead of the clock. Waiting graphs slow the backward down (181 us in step, 302 us with 256 waiting).
POOL = 16


@contextmanager
def collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def forward(case: Case, number: int, clock: Clock) -> float:
    """Seconds of `number` forward calls, each with building its graph and freeing it unused."""
    call, inputs = case.apply, case.inputs
    case.synchronise()
    with collector_off():
        begin = clock()
        for _ in repeat(None, number):
            call(*inputs)
        case.synchronise()
        return clock() - begin


def inference(case: Case, number: int, clock: Clock) -> float:
    """Seconds of `number` forward calls under no_grad, each with freeing its outputs."""
    with torch.no_grad():
        return forward(case, number, clock)


def backward(case: Case, number: int, clock: Clock) -> float:
    """Seconds of `number` calls of torch.autograd.grad on fresh graphs built outside the clock.

    Includes freeing the graph, as in training, and the gradients. No gradient is accumulated into `.grad`.
    """
    call, inputs, leaves, grad_outputs = case.apply, case.inputs, case.leaves, case.grad_outputs
    spent = 0.0
    with collector_off():
        for done in range(0, number, POOL):
            pool = [as_tuple(call(*inputs)) for _ in range(min(POOL, number - done))]
            case.synchronise()
            begin = clock()
            while pool:
                torch.autograd.grad(pool.pop(), leaves, grad_outputs, allow_unused=True)
            case.synchronise()
            spent += clock() - begin
    return spent


def replayed_backward(case: Case, number: int, clock: Clock, *, compiled: bool) -> float:
    """Seconds of `number` calls of torch.autograd.grad on one graph, which is kept; with the gradients.

    An optimisation where building graphs costs more than the backward: it times no freeing, and warms the caches more
    than training does, so its results do not compare with those of `backward`. Raises ValueError for a compiled
    variant, whose donated buffers it would switch off, and unless the backward was shown pure.
    """
    if compiled:
        raise ValueError(f"{case.key}: a compiled variant's graph is not replayed: it frees its buffers as it goes")
    shown_pure(case)
    leaves, grad_outputs = case.leaves, case.grad_outputs
    outputs = case.forward()
    case.synchronise()
    with collector_off():
        begin = clock()
        for _ in repeat(None, number):
            torch.autograd.grad(outputs, leaves, grad_outputs, retain_graph=True, allow_unused=True)
        case.synchronise()
        return clock() - begin


def forward_backward(case: Case, number: int, clock: Clock) -> float:
    """Seconds of `number` training steps: forward, then `.backward()` into leaves whose `.grad` is None."""
    call, inputs, leaves, grad_outputs = case.apply, case.inputs, case.leaves, case.grad_outputs
    case.synchronise()
    with collector_off():
        begin = clock()
        for _ in repeat(None, number):
            torch.autograd.backward(as_tuple(call(*inputs)), grad_outputs)
            for leaf in leaves:
                leaf.grad = None
        case.synchronise()
        return clock() - begin


SAMPLE: dict[str, Callable[[Case, int, Clock], float]] = {
    "forward": forward,
    "backward": backward,
    "forward_backward": forward_backward,
    "inference": inference,
}
