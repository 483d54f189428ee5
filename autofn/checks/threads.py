"""Two threads at once: what one call does changes nothing in another."""

from __future__ import annotations

import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools.passes import (
    ON_CTX,
    Change,
    Pass,
    Result,
    accepted,
    backward_needs_a_generator,
    compared,
    copied,
    forward,
    forward_draws,
    is_compiled,
    keeping_the_generators,
    other_values,
    working,
)
from .tools.pure import told

# Lines of a Function at which one thread is stopped: all of most; evenly spread over those of a longer one.
STOPS = 40

# Seconds that a stopped thread waits for the other one, which may wait for a lock of the stopped one.
PATIENCE_S = 0.25

# Seconds for all interleavings of a Function that is slow.
BUDGET_S = 2.0

# Unguided runs of two threads, for code in which there is no Python line to stop at.
FREE_RUNS = 8


def thread_safety(subject: Subject) -> Iterator[Finding]:
    """Two threads, one stopped before each line of the Function in turn while the other runs to its end."""
    if is_compiled(subject):
        raise NotImplementedError("compiled code has no Python lines between which threads change")
    want = working(subject)
    if backward_needs_a_generator(subject):
        raise NotImplementedError("the backward uses the generator, which all threads share")
    change: Change = other_values
    other = accepted(subject, change)
    if other is None:
        change, other = _the_same, want
    for phase in PHASES:
        wrong = list(_in_threads(subject, phase, change, (want, other)))
        if wrong:
            yield wrong[0]
            return


def _the_same(inputs: Inputs) -> Inputs:
    return inputs


Work = Callable[[], Result]

Phase = tuple[str, Callable[[Subject, Inputs], Work]]


def _backward_alone(subject: Subject, inputs: Inputs) -> Work:
    one = forward(subject, inputs)
    outputs = copied(one.outputs)
    return lambda: Result(outputs, copied(one.backward()))  # type: ignore[arg-type]


def _both(subject: Subject, inputs: Inputs) -> Work:
    def work() -> Result:
        outputs = subject.call(inputs)
        one = Pass(inputs, outputs, subject.grad_outputs(outputs))
        kept = copied(outputs)
        return Result(kept, copied(one.backward()))  # type: ignore[arg-type]

    return work


PHASES: tuple[Phase, ...] = (("backward", _backward_alone), ("forward and backward", _both))


def _in_threads(subject: Subject, phase: Phase, change: Change, alone: tuple[Result, Result]) -> Iterator[Finding]:
    name, prepare = phase
    if prepare is _both and forward_draws(subject):
        return  # the order of the threads decides who draws which numbers

    def works() -> list[Work]:
        return [prepare(subject, subject.inputs()), prepare(subject, change(subject.inputs()))]

    with keeping_the_generators():
        for results in _runs(works):
            for each, want, make in zip(
                results, alone, (subject.inputs, lambda: change(subject.inputs())), strict=True
            ):
                if isinstance(each, Exception):
                    yield Finding(f"{name} in two threads at once: raises {told(each)}", fix=ON_CTX)
                    return
                message = f"{name} in two threads at once: not what each gives alone"
                wrong = list(compared(subject, each, want, message, f"{ON_CTX}, and not in a threading.local", make()))
                if wrong:
                    yield wrong[0]
                    return


def _runs(works: Callable[[], list[Work]]) -> Iterator[list[Result | Exception]]:
    """What two threads gave: stopped at every line in turn, then running freely."""
    until = time.monotonic() + BUDGET_S
    lines = _Stopped(0)
    yield lines.run(works())
    patience = PATIENCE_S
    for stop in _spread(lines.count):
        one = _Stopped(stop, patience)
        yield one.run(works())
        if one.blocked:
            patience = PATIENCE_S / 10
        if time.monotonic() > until:
            break
    with _switching_often():
        for _ in range(FREE_RUNS):
            yield _at_once(works())


def _spread(count: int) -> list[int]:
    return sorted({1 + place * count // STOPS for place in range(STOPS)} & set(range(1, count + 1)))


class _Stopped:
    """Two threads of which the first stops before its `stop`-th line of the Function until the second has ended.

    count: lines that the first has run. blocked: whether the second did not end meanwhile, as behind a lock.
    """

    def __init__(self, stop: int, patience_s: float = PATIENCE_S) -> None:
        self.stop, self.patience_s = stop, patience_s
        self.count, self.blocked = 0, False
        self.reached, self.resume = threading.Event(), threading.Event()

    def run(self, works: list[Work]) -> list[Result | Exception]:
        results: list[Any] = [None, None]

        def first() -> None:
            sys.settrace(self._enter)
            try:
                results[0] = _tried(works[0])
            finally:
                sys.settrace(None)
                self.reached.set()

        def second() -> None:
            results[1] = _tried(works[1])

        threads = [threading.Thread(target=each, daemon=True) for each in (first, second)]
        threads[0].start()
        self.reached.wait()
        threads[1].start()
        threads[1].join(self.patience_s)
        self.blocked = threads[1].is_alive()
        self.resume.set()
        for thread in threads:
            thread.join()
        return results

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if _of_the_author(frame.f_code) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self.stop:
                self.reached.set()
                self.resume.wait()
        return self._line


_OTHERS = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parent),
    sysconfig.get_paths()["stdlib"] + "/",
    "<frozen",
)

_PACKAGES = sysconfig.get_paths()["purelib"]


def _of_the_author(code: CodeType) -> bool:
    """Whether it is neither Python's nor PyTorch's nor this checker's."""
    name = code.co_filename
    return not name.startswith(_OTHERS) or (name.startswith(_PACKAGES) and not name.startswith(_OTHERS[0]))


def _tried(work: Work) -> Result | Exception:
    try:
        return work()
    except Exception as error:  # a Function may raise anything
        return error


def _at_once(works: list[Work]) -> list[Result | Exception]:
    """What threads gave that began at the same time."""
    results: list[Any] = [None] * len(works)
    barrier = threading.Barrier(len(works))

    def run(place: int) -> None:
        barrier.wait()
        results[place] = _tried(works[place])

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@contextmanager
def _switching_often() -> Iterator[None]:
    """Python changes threads every microsecond instead of every 5 milliseconds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


RULES = (Rule("thread-safety", "error", "several threads give what each gives alone", thread_safety),)
