"""Samples by replay of a CUDA graph: the device's work of a case without Python, dispatch or allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import torch

from ..case import Case, Outputs, as_tuple
from .device_clock import DeviceClock, Step
from .device_events import Spans, differentiate, step_back, total
from .phases import collector_off


def _forward_steps(case: Case) -> tuple[Step, ...]:
    def forward() -> None:
        case.apply(*case.inputs)

    return (forward,)


def _inference_steps(case: Case) -> tuple[Step, ...]:
    return (torch.no_grad()(_forward_steps(case)[0]),)


def _backward_steps(case: Case) -> tuple[Step, ...]:
    waiting: list[Outputs] = []
    return lambda: waiting.append(as_tuple(case.apply(*case.inputs))), lambda: differentiate(case, waiting)


def _forward_backward_steps(case: Case) -> tuple[Step, ...]:
    return (lambda: step_back(case, [as_tuple(case.apply(*case.inputs))]),)


@dataclass
class Replay:
    """Device seconds of `number` replays of a CUDA graph in a row: kernels, the gaps between them, a launch a replay.

    steps: what is captured, each step a graph. Only the last is timed; those before it are replayed before each replay
    of it, outside the marks, so a backward finds what its forward saved. Captured at the first sample of a case, and
    kept for the next ones of the same: the first replay is slower, and goes to warming up.

    Raises NotImplementedError where the case cannot be captured, and what the Function raises when merely called.
    """

    steps: Callable[[Case], tuple[Step, ...]]
    _kept: tuple[Case, DeviceClock, tuple[Step, ...]] | None = field(default=None, init=False)

    def __call__(self, case: Case, number: int, clock: DeviceClock) -> float:
        *before, timed = self._replays(case, clock)
        clock.synchronise()
        with collector_off():
            spans = _each(before, timed, number, clock) if before else _in_a_row(timed, number, clock)
            return total(spans, clock)

    def _replays(self, case: Case, clock: DeviceClock) -> tuple[Step, ...]:
        if self._kept is None or self._kept[0] is not case or self._kept[1] is not clock:
            self._kept = None
            self._kept = case, clock, _capture(self.steps(case), clock)
        return self._kept[2]


def _in_a_row(replay: Step, number: int, clock: DeviceClock) -> Spans:
    begin = clock.mark()
    for _ in repeat(None, number):
        replay()
    return [(begin, clock.mark())]


def _each(before: Sequence[Step], replay: Step, number: int, clock: DeviceClock) -> Spans:
    spans: Spans = []
    for _ in repeat(None, number):
        for other in before:
            other()
        begin = clock.mark()
        replay()
        spans.append((begin, clock.mark()))
    return spans


def _capture(steps: tuple[Step, ...], clock: DeviceClock) -> tuple[Step, ...]:
    for step in steps:
        # What fails outside of a capture is the Function's failure, not the capture's.
        step()
    clock.synchronise()
    try:
        return clock.capture(*steps)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise NotImplementedError(f"cannot be captured in a CUDA graph: {_first_cause(error)}") from error


def _first_cause(error: BaseException) -> str:
    """The first line of what was raised first: ending a capture that has failed raises once more."""
    while error.__context__ is not None:
        error = error.__context__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


STEPS: dict[str, Callable[[Case], tuple[Step, ...]]] = {
    "forward": _forward_steps,
    "backward": _backward_steps,
    "forward_backward": _forward_backward_steps,
    "inference": _inference_steps,
}
