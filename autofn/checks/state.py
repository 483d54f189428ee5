"""A call's state is on its ctx: other calls, before its backward or at the same time, change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    backward_draws,
    compared,
    copied,
    fewer_rows,
    forward,
    is_compiled,
    keeping_the_generators,
    other_numbers,
    other_values,
    working,
)
from .tools.pure import told

# More than a double or triple buffer holds.
FORWARDS_BETWEEN = 4

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
            other = accepted(subject, change)
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
            yield Finding(f"two forwards, then their backwards {order}: raises {told(error)}", fix=ON_CTX)
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
        yield Finding(f"a backward after {len(others) + 1} further forwards raises {told(error)}", fix=ON_CTX)
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
        yield Finding(f"f(f(x)): the backward raises {told(error)}", fix=ON_CTX)
        return
    if got is not None and want is not None:
        mine, right = (Result(copied(together.outputs), (grad,)) for grad in (got, want))  # type: ignore[arg-type]
        message = "f(f(x)): not the chain rule of two calls"
        yield from compared(subject, mine, right, message, ON_CTX, (inner.inputs[place],))


def _gradient(out: torch.Tensor, leaf: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor | None:
    return torch.autograd.grad(out, leaf, weight, allow_unused=True)[0]


RULES = (Rule("state-between-calls", "error", "calls before a call's backward do not change it", state_between_calls),)
