"""Samples by marks on the device's timeline, with warm caches and with cold ones. Each says what its time includes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import torch

from ..case import Case, Outputs, as_tuple
from .device_clock import DeviceClock
from .phases import POOL, collector_off

Sample = Callable[[Case, int, DeviceClock], float]
Spans = list[tuple[Any, Any]]
"""Pairs of marks."""


def total(spans: Spans, clock: DeviceClock) -> float:
    """Seconds of the device between the marks of each pair, all together; it is waited for first."""
    clock.synchronise()
    return sum(clock.elapsed(begin, end) for begin, end in spans)


def differentiate(case: Case, waiting: list[Outputs]) -> None:
    """One `torch.autograd.grad` of the last graph that waits; nothing keeps the graph after it."""
    torch.autograd.grad(waiting.pop(), case.leaves, case.grad_outputs, allow_unused=True)


def step_back(case: Case, waiting: list[Outputs]) -> None:
    """One `.backward()` of the last graph that waits, into leaves whose `.grad` is None before and after."""
    torch.autograd.backward(waiting.pop(), case.grad_outputs)
    for leaf in case.leaves:
        leaf.grad = None


def warm_forward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds from the start of the first to the end of the last of `number` forward calls in a row.

    Includes the gaps in which the device waits for the host: of small calls this is the host's time. Building graphs
    and freeing them is in it only so far.
    """
    call, inputs = case.apply, case.inputs
    clock.synchronise()
    with collector_off():
        begin = clock.mark()
        for _ in repeat(None, number):
            call(*inputs)
        return total([(begin, clock.mark())], clock)


def warm_inference(case: Case, number: int, clock: DeviceClock) -> float:
    """As `warm_forward`, under no_grad."""
    with torch.no_grad():
        return warm_forward(case, number, clock)


def warm_backward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds of `number` backwards, a pool of graphs in a row; the forwards are outside the marks.

    The device has nothing left to do when a pool begins: gaps in which it waits for the host are included.
    """
    spans: Spans = []
    with collector_off():
        for done in range(0, number, POOL):
            pool = [as_tuple(case.apply(*case.inputs)) for _ in range(min(POOL, number - done))]
            clock.synchronise()
            begin = clock.mark()
            while pool:
                differentiate(case, pool)
            spans.append((begin, clock.mark()))
        return total(spans, clock)


def warm_forward_backward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds of `number` training steps in a row, the device's waiting for the host included."""
    clock.synchronise()
    with collector_off():
        begin = clock.mark()
        for _ in repeat(None, number):
            step_back(case, [as_tuple(case.apply(*case.inputs))])
        return total([(begin, clock.mark())], clock)


def cold_forward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds of `number` forward calls, each alone, after a flush of the L2 that is outside the marks.

    While the device flushes the host issues the call, so that little or none of the host's time is in it. What the
    flush has written must leave the L2 to make room: the time includes that.
    """
    call, inputs = case.apply, case.inputs
    spans: Spans = []
    clock.synchronise()
    with collector_off():
        for _ in repeat(None, number):
            clock.flush()
            begin = clock.mark()
            call(*inputs)
            spans.append((begin, clock.mark()))
        return total(spans, clock)


def cold_inference(case: Case, number: int, clock: DeviceClock) -> float:
    """As `cold_forward`, under no_grad."""
    with torch.no_grad():
        return cold_forward(case, number, clock)


def cold_backward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds of `number` backwards, each on a fresh graph and after a flush between forward and backward.

    So nothing that the forward saved is in the L2, as when other layers ran in between. The forward, which has a flush
    before it too, and both flushes are outside the marks.
    """
    spans: Spans = []
    clock.synchronise()
    with collector_off():
        for _ in repeat(None, number):
            clock.flush()
            waiting = [as_tuple(case.apply(*case.inputs))]
            clock.flush()
            begin = clock.mark()
            differentiate(case, waiting)
            spans.append((begin, clock.mark()))
        return total(spans, clock)


def cold_forward_backward(case: Case, number: int, clock: DeviceClock) -> float:
    """Device seconds of `number` training steps: the forward and the `.backward()`, each after a flush of its own.

    The flushes are outside the marks.
    """
    spans: Spans = []
    clock.synchronise()
    with collector_off():
        for _ in repeat(None, number):
            clock.flush()
            begin = clock.mark()
            waiting = [as_tuple(case.apply(*case.inputs))]
            spans.append((begin, clock.mark()))
            clock.flush()
            begin = clock.mark()
            step_back(case, waiting)
            spans.append((begin, clock.mark()))
        return total(spans, clock)


WARM: dict[str, Sample] = {
    "forward": warm_forward,
    "backward": warm_backward,
    "forward_backward": warm_forward_backward,
    "inference": warm_inference,
}
COLD: dict[str, Sample] = {
    "forward": cold_forward,
    "backward": cold_backward,
    "forward_backward": cold_forward_backward,
    "inference": cold_inference,
}
