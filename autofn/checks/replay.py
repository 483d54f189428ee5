"""One graph, several backwards: each works, gives the same, and leaves all as it found it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from ..compiled import replayable
from ..observe.snapshot import Snapshot
from .rule import WARNING, Finding, Rule
from .subject import Subject
from .tools.comparing import allowed, difference, same_bits
from .tools.passes import (
    Gradients,
    Pass,
    Result,
    compared,
    copied,
    forward,
    keeping_the_generators,
    named_tensors,
    working,
)

KEEP = "keep on ctx what the backward needs until the graph itself goes; the engine frees saved tensors"

# What torch.compile says instead of a second backward, where its graph gave its saved tensors away.
DONATED = "compiled with non-empty donated buffers"


def retain_graph(subject: Subject) -> Iterator[Finding]:
    """Two more backwards after one with retain_graph=True: they work, and give what the first gave."""
    working(subject)
    with keeping_the_generators(), _replays(subject):
        one = forward(subject)
        outputs = copied(one.outputs)
        first = Result(outputs, copied(_with_fresh_weights(one).backward(retain_graph=True)))  # type: ignore[arg-type]
        for which, options in (("second", {"retain_graph": True}), ("last", {})):
            try:
                again = Result(outputs, copied(_with_fresh_weights(one).backward(**options)))  # type: ignore[arg-type]
            except Exception as error:  # a Function may raise anything
                yield from _raised(error, which)
                return
            wrong = list(compared(subject, again, first, f"the {which} backward of a retained graph differs", KEEP))
            if wrong:
                yield from wrong
                return


def _with_fresh_weights(one: Pass) -> Pass:
    """The same graph: a backward that writes to its grad_output, which mutated-grad-output tells, spoils a copy."""
    return replace(one, weights=copied(one.weights))


def _raised(error: Exception, which: str) -> Iterator[Finding]:
    if DONATED in str(error):
        raise NotImplementedError(str(error).splitlines()[0]) from error
    yield Finding(
        f"the {which} backward raises {type(error).__name__}, although the graph was retained: {error}",
        observed=type(error).__name__,
        expected="the gradients of the first backward",
        fix=f"{KEEP}; an inner graph needs torch.autograd.grad(..., retain_graph=True), or is recorded anew",
    )


def impure_backward(subject: Subject) -> Iterator[Finding]:
    """Replays agree bit for bit, and inputs, outputs and grad_outputs keep their bits and version counters."""
    working(subject)
    with keeping_the_generators(), _replays(subject):
        one = forward(subject)
        before = Snapshot.of(_around(one))
        first = copied(one.backward(retain_graph=True))
        yield from _written(before)
        for which in ("second", "third"):
            try:
                again = copied(one.backward(retain_graph=True))
            except Exception as error:  # rule retain-graph reports it
                raise NotImplementedError(
                    f"a retained graph has no {which} backward: {type(error).__name__}"
                ) from error
            if not same_bits(first, again):
                yield _not_the_same(subject, which, near=_near(subject, first, again))
                return


def _around(one: Pass) -> dict[str, torch.Tensor]:
    """What a backward may read, by name."""
    given = (*named_tensors(one.inputs), *named_tensors(one.outputs, "output"))
    grads = {f"grad_output {place}": w for place, w in enumerate(one.weights) if w is not None}
    return {name: t for name, t in given if t.layout is torch.strided} | grads


def _written(before: Snapshot) -> Iterator[Finding]:
    change = before.change()
    if change:
        yield Finding(
            f"{change}: another branch of the graph, or a second backward, reads it too",
            change.rpartition("changed ")[2],
            fix="write to memory of the backward's own: g * mask instead of g.mul_(mask)",
        )


def _near(subject: Subject, first: Gradients, again: Gradients) -> bool:
    """Whether no more differs than rounding explains."""
    return all(
        a is b
        or (
            a is not None
            and b is not None
            and (a.shape, a.dtype) == (b.shape, b.dtype)
            and difference(b, a, *allowed(subject, a.dtype, a)) is None
        )
        for a, b in zip(first, again, strict=True)
    )


def _not_the_same(subject: Subject, which: str, near: bool) -> Finding:
    """A warning where only the order of additions may differ: on a GPU, and in threads of the Function's own."""
    if near:
        return Finding(
            f"the {which} backward of one graph gives gradients that differ from the first in their last bits",
            observed="other bits",
            expected="the same bits",
            fix="add up in a fixed order, not in that in which threads end",
            severity=WARNING,
        )
    return Finding(
        f"the {which} backward of one graph gives other gradients than the first: the backward changes what it reads, "
        "or draws random numbers",
        observed="other bits",
        expected="the same bits",
        fix="let the backward change nothing on ctx, in saved tensors, in globals or in a generator",
        severity=WARNING if subject.device == "cuda" else "",
    )


def _replays(subject: Subject) -> AbstractContextManager[None]:
    """Compiled graphs give their saved tensors away at the first backward, unless asked not to."""
    return replayable() if subject.compiled else nullcontext()


RULES = (
    Rule("retain-graph", "error", "a retained graph can be differentiated again, with the same result", retain_graph),
    Rule("impure-backward", "error", "the backward changes nothing but the gradients it returns", impure_backward),
)
