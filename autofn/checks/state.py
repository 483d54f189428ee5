"""A call's state is on its ctx: other calls, before its backward or at the same time, change nothing."""

from __future__ import annotations

import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools.passes import (
    Pass,
    Result,
    backward_draws,
    backward_needs_a_generator,
    compared,
    copied,
    fewer_rows,
    forward,
    forward_draws,
    is_compiled,
    keeping_the_generators,
    other_numbers,
    other_values,
    working,
)

ON_CTX = (
    "keep what belongs to one call on its ctx (tensors by save_for_backward), not on the class, a module or a global"
)

# More than a double or triple buffer holds.
FORWARDS_BETWEEN = 4

# Lines of a Function at which one thread is stopped: all of most; evenly spread over those of a longer one.
STOPS = 40
# Seconds that a stopped thread waits for the other one, which may wait for a lock of the stopped one.
PATIENCE_S = 0.25
# Seconds for all interleavings of a Function that is slow.
BUDGET_S = 2.0
# Unguided runs of two threads, for code in which there is no Python line to stop at.
FREE_RUNS = 8

Change = Callable[[Inputs], Inputs]
CHANGES: tuple[tuple[str, Change], ...] = (
    ("other values", other_values),
    ("other numbers", other_numbers),
    ("fewer rows", fewer_rows),
)


def state_between_calls(subject: Subject) -> Iterator[Finding]:
    """Two calls with different arguments, their backwards afterwards in both orders, against each call alone."""
    want = working(subject)
    _need_no_generator(subject)
    tried = 0
    with keeping_the_generators():
        # Other numbers and shapes are another graph: what a compiler makes of them is no state of the Function's.
        for how, change in CHANGES[:1] if is_compiled(subject) else CHANGES:
            other = _accepted(subject, change)
            if other is None:
                continue
            tried += 1
            wrong = [
                *_interleaved(subject, (_Call(subject.inputs, want), _Call(_with(subject, change), other)), how),
                *_interleaved(subject, (_Call(_with(subject, change), other), _Call(subject.inputs, want)), how),
                *_waiting(subject, want, change, how),
            ]
            if wrong:
                yield wrong[0]
                return
        yield from _nested(subject)
    if not tried:
        raise NotImplementedError("the Function takes no other arguments than its own")


def _need_no_generator(subject: Subject) -> None:
    if backward_draws(subject):
        raise NotImplementedError(
            "the backward draws random numbers, in whatever order calls come: see rule randomness"
        )


def _accepted(subject: Subject, change: Change) -> Result | None:
    """What the call with changed arguments gives alone; None where it is refused, or nothing has changed."""
    inputs = subject.inputs()
    if all(a is b for a, b in zip(inputs, change(inputs), strict=True)):
        return None
    try:
        return working(subject, lambda: change(subject.inputs()))
    except NotImplementedError:
        return None


Two = tuple[Pass, Pass]
Order = Callable[[Two], tuple[Any, Any]]


def _first_first(both: Two) -> tuple[Any, Any]:
    first = both[0].backward()
    return first, both[1].backward()


def _last_first(both: Two) -> tuple[Any, Any]:
    second = both[1].backward()
    return both[0].backward(), second


ORDERS: tuple[tuple[str, Order], ...] = (("in the same order", _first_first), ("in the other order", _last_first))


@dataclass(frozen=True)
class _Call:
    """One of two calls: what makes its arguments, and what it gives alone."""

    make: Callable[[], Inputs]
    alone: Result


def _with(subject: Subject, change: Change) -> Callable[[], Inputs]:
    return lambda: change(subject.inputs())


def _interleaved(subject: Subject, calls: tuple[_Call, _Call], how: str) -> Iterator[Finding]:
    for order, backwards in ORDERS:
        both = forward(subject, calls[0].make()), forward(subject, calls[1].make())
        outputs = [copied(one.outputs) for one in both]
        message = f"two forwards, one with {how}, then their backwards {order}: not what each gives alone"
        try:
            gradients = backwards(both)
        except Exception as error:  # a Function may raise anything
            yield Finding(f"two forwards, then their backwards {order}: raises {_line(error)}", fix=ON_CTX)
            return
        for one, call, outs, grads in zip(both, calls, outputs, gradients, strict=True):
            got = Result(outs, copied(grads))  # type: ignore[arg-type]
            yield from compared(subject, got, call.alone, message, ON_CTX, one.inputs)


def _waiting(subject: Subject, want: Result, change: Change, how: str) -> Iterator[Finding]:
    """A backward after more forwards than a ring of buffers has places, the last of them without gradients."""
    first = forward(subject)
    outputs = copied(first.outputs)
    others = [forward(subject, change(subject.inputs())) for _ in range(FORWARDS_BETWEEN)]
    with torch.no_grad():
        forward(subject, tuple(t.detach() if isinstance(t, torch.Tensor) else t for t in change(subject.inputs())))
    message = f"a backward after {len(others) + 1} further forwards with {how}: not what it gives alone"
    try:
        got = Result(outputs, copied(first.backward()))  # type: ignore[arg-type]
    except Exception as error:  # a Function may raise anything
        yield Finding(f"a backward after {len(others) + 1} further forwards raises {_line(error)}", fix=ON_CTX)
        return
    yield from compared(subject, got, want, message, ON_CTX)


def _nested(subject: Subject) -> Iterator[Finding]:
    """f(f(x)) in one graph, against the chain rule with a graph for each of the two calls."""
    inner = forward(subject)
    place = next((i for i, t in enumerate(inner.inputs) if isinstance(t, torch.Tensor) and t.requires_grad), None)
    like = inner.outputs[0]
    if place is None or len(inner.outputs) != 1 or like.shape != inner.inputs[place].shape:
        return
    if like.dtype != inner.inputs[place].dtype:
        return

    def outer(middle: torch.Tensor) -> Pass:
        inputs = subject.inputs()
        return forward(subject, (*inputs[:place], middle, *inputs[place + 1 :]))

    try:
        apart = outer(like.detach().requires_grad_())
        first = _gradient(apart.outputs[0], apart.inputs[place], apart.weights[0])
        want = _gradient(like, inner.inputs[place], first)
        one = forward(subject)
        together = outer(one.outputs[0])
    except Exception:  # the outputs need not be arguments that it accepts
        return
    try:
        got = _gradient(together.outputs[0], one.inputs[place], together.weights[0])
    except Exception as error:  # a Function may raise anything
        yield Finding(f"f(f(x)): the backward raises {_line(error)}", fix=ON_CTX)
        return
    if got is not None and want is not None:
        mine, right = (Result(copied(together.outputs), (grad,)) for grad in (got, want))  # type: ignore[arg-type]
        message = "f(f(x)): not the chain rule of two calls"
        yield from compared(subject, mine, right, message, ON_CTX, (inner.inputs[place],))


def _gradient(out: torch.Tensor, leaf: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor | None:
    return torch.autograd.grad(out, leaf, weight, allow_unused=True)[0]


def thread_safety(subject: Subject) -> Iterator[Finding]:
    """Two threads, one stopped before each line of the Function in turn while the other runs to its end."""
    if is_compiled(subject):
        raise NotImplementedError("compiled code has no Python lines between which threads change")
    want = working(subject)
    if backward_needs_a_generator(subject):
        raise NotImplementedError("the backward uses the generator, which all threads share")
    change: Change = other_values
    other = _accepted(subject, change)
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
                    yield Finding(f"{name} in two threads at once: raises {_line(each)}", fix=ON_CTX)
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


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


RULES = (
    Rule("state-between-calls", "error", "calls before a call's backward do not change it", state_between_calls),
    Rule("thread-safety", "error", "several threads give what each gives alone", thread_safety),
)
