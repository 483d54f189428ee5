"""Whether outputs share memory with inputs, with each other, or with what a later call returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .rule import ERROR, INFO, WARNING, Finding, Rule
from .subject import Inputs, Subject, differentiable
from .tools import watching
from .tools.comparing import same_bits

FIX = "return a copy (.clone()), or a new tensor"


@dataclass(frozen=True)
class Call:
    """One forward: copies of the arguments, the outputs, and which arguments an output may view."""

    passed: Inputs
    outputs: tuple[Any, ...]
    free: frozenset[int]

    @classmethod
    def of(cls, subject: Subject, seed: int = 0) -> Call:
        passed = watching.copies(subject.inputs(seed=seed))
        with watching.marks() as marked:
            outputs = watching.outputs_of(subject, passed)
        dirty = {place for place, t in enumerate(passed) if any(t is each for each in marked.dirty)}
        return cls(passed, outputs, frozenset((*subject.intent.mutates, *subject.intent.views, *dirty)))

    def alias(self, output: int, other: Any) -> bool:
        """Whether writing to an output changes another tensor; the write itself is hidden from autograd."""
        out = self.outputs[output]
        if out is other or not watching.storages([out]) & watching.storages([other]):
            return False
        before = other.detach().clone()
        try:
            scribble(out.detach())
        except RuntimeError:  # an expanded tensor cannot be written to: it views by its nature
            return True
        return not same_bits([before], [other])


def scribble(t: torch.Tensor) -> None:
    """Changes every element in place."""
    if t.dtype is torch.bool:
        t.logical_not_()
    else:
        t.copy_(torch.where(t == 1, 2, 1))


def output_views(subject: Subject) -> Iterator[Finding]:
    """Writing to an output in place changes nothing else, or is refused by autograd with an error."""
    watching.need_a_forward(subject)
    outputs = Call.of(subject).outputs
    count = len(outputs)
    floating = [place for place, out in enumerate(outputs) if differentiable(out)]
    for place in floating:
        yield from _of_inputs(subject, place)
        for other in range(count):
            if other != place:
                yield from _of_outputs(subject, place, other)
    yield from _of_calls(subject)


def _of_inputs(subject: Subject, place: int) -> Iterator[Finding]:
    for position, tensor in enumerate(Call.of(subject).passed):
        call = Call.of(subject)
        if (
            not isinstance(tensor, torch.Tensor)
            or position in call.free
            or not call.alias(place, call.passed[position])
        ):
            continue
        where, what = f"output {place}", f"it shares memory with input {position}"
        match _written(subject, place, position):
            case "refused":
                yield Finding(
                    f"{what}: writing to it in place is refused",
                    where,
                    fix=FIX,
                    severity=_refused(subject, place, position),
                )
            case "corrupted":
                yield Finding(f"{what}, and autograd does not know: writing to it changes the input", where, fix=FIX)


def _written(subject: Subject, place: int, position: int) -> str:
    """What comes of writing to an output that shares memory with an input: "refused", "followed" or "corrupted"."""
    call = Call.of(subject)
    out, given = call.outputs[place], call.passed[position]
    if out._is_view() and not _is_custom(out) and _root(out) is _root(given):
        return "followed"
    try:
        scribble(out)
    except RuntimeError:
        return "refused"
    return "corrupted"


def _root(t: torch.Tensor) -> torch.Tensor | None:
    return t if t._base is None else t._base


def _is_custom(out: torch.Tensor) -> bool:
    return isinstance(out.grad_fn, torch.autograd.function.BackwardCFunction)


def _refused(subject: Subject, place: int, position: int) -> str:
    """A gradient reversal's `x.view_as(x)` and what the reference views too are views by design: to be known."""
    call = Call.of(subject)
    out, given = call.outputs[place], call.passed[position]
    if out.shape == given.shape and out.stride() == given.stride():
        return INFO
    return INFO if _reference_views(subject, place, position) else WARNING


def _reference_views(subject: Subject, place: int, position: int) -> bool:
    if subject.reference is None:
        return False
    passed = watching.copies(subject.inputs())
    outputs = watching.tensors(subject.call(passed, subject.reference))
    return place < len(outputs) and bool(watching.storages([outputs[place]]) & watching.storages([passed[position]]))


def _of_outputs(subject: Subject, place: int, other: int) -> Iterator[Finding]:
    """Where writing to one output changes another, and autograd lets both be used."""
    probe = Call.of(subject)
    if not isinstance(probe.outputs[other], torch.Tensor) or not probe.alias(place, probe.outputs[other]):
        return
    call = Call.of(subject)
    try:
        scribble(call.outputs[place])
        call.outputs[other] * 1
    except RuntimeError:
        return  # refused: nothing is corrupted
    yield Finding(f"it shares memory with output {other}: writing to one changes the other", f"output {place}", fix=FIX)


def _of_calls(subject: Subject) -> Iterator[Finding]:
    first = Call.of(subject)
    kept: Sequence[Any] = [t.detach().clone() for t in watching.tensors(first.outputs)]
    Call.of(subject, seed=1)
    for place, (before, after) in enumerate(zip(kept, watching.tensors(first.outputs), strict=True)):
        if not same_bits([before], [after]):
            message = "a second call overwrites what the first returned"
            yield Finding(message, f"output {place}", fix="allocate the output in every call", severity=ERROR)


RULES = (
    Rule(
        "output-views", "error", "writing to an output changes nothing else, or is refused with an error", output_views
    ),
)
