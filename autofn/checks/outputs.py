"""Several outputs: any of them unused, their gradients undefined, and those that have no gradient marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from .rule import INFO, Finding, Rule
from .subject import Subject, differentiable, exact, leaves, positions
from .tools import watching
from .tools.comparing import allowed, difference, same_bits
from .tools.pure import seeded

Grads = Mapping[int, torch.Tensor]


def unused_output(subject: Subject) -> Iterator[Finding]:
    """An output that the loss does not use counts as one whose gradient is zero."""
    watching.need_a_backward(subject)
    tracked = _tracked(subject)
    if len(tracked) < 2:
        raise NotImplementedError("fewer than two outputs have a gradient")
    for used in watching.subsets(tracked):
        want = _gradients(subject, used, zeros=[place for place in tracked if place not in used])
        try:
            got = _gradients(subject, used)
        except Exception as error:  # a backward may raise anything
            yield Finding(
                f"the backward raises {type(error).__name__} when only {_told(used)} is used: {error}",
                _unused(tracked, used),
                fix=HANDLE_NONE,
            )
            continue
        yield from _compare(subject, got, want, f"where only {_told(used)} is used")


HANDLE_NONE = "after ctx.set_materialize_grads(False) each grad_output may be None: skip its term"


def _tracked(subject: Subject) -> list[int]:
    return [place for place, out in enumerate(subject.call(subject.inputs())) if differentiable(out)]


def _told(used: Iterable[int]) -> str:
    return "output " + " and ".join(map(str, used))


def _unused(tracked: list[int], used: tuple[int, ...]) -> str:
    return ", ".join(f"output {place}" for place in tracked if place not in used)


def _gradients(subject: Subject, used: Iterable[int], zeros: Iterable[int] = ()) -> Grads:
    """The gradients when the loss is a weighted sum of some outputs, and has zero as the gradient of others."""
    inputs = subject.inputs()
    with seeded():
        outputs = subject.call(inputs)
        weights = subject.grad_outputs(outputs)
        chosen = [(outputs[place], weights[place]) for place in used]
        chosen += [(outputs[place], torch.zeros_like(outputs[place])) for place in zeros]
        outs, given = zip(*chosen, strict=True)
        found = torch.autograd.grad(outs, leaves(inputs), given, allow_unused=True)
    return {place: _filled(grad, inputs[place]) for place, grad in zip(positions(inputs), found, strict=True)}


def _filled(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if grad is None else grad


def _compare(subject: Subject, got: Grads, want: Grads, when: str) -> Iterator[Finding]:
    for place, right in want.items():
        found = difference(got[place], right, *allowed(subject, right.dtype, right), only_finite=True)
        if found is not None:
            yield found.finding(f"the gradient is wrong {when}", f"gradient of input {place}", HANDLE_NONE)


class _Blocked(torch.autograd.Function):
    """The identity, whose gradient is undefined."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> None:
        return None


def none_grad(subject: Subject) -> Iterator[Finding]:
    """A gradient that the engine leaves undefined, as of a later Function that returns None, counts as zero."""
    watching.need_a_backward(subject)
    tracked = _tracked(subject)
    for blocked in (*watching.subsets(tracked), tuple(tracked)):
        used = [place for place in tracked if place not in blocked]
        where = _told(blocked)
        try:
            got = _blocked_gradients(subject, blocked)
        except Exception as error:  # a backward may raise anything
            message = f"the backward raises {type(error).__name__} where its gradient is undefined: {error}"
            yield Finding(message, where, fix=HANDLE_NONE)
            continue
        yield from _compare(subject, got, _gradients(subject, used, blocked), f"where that of {where} is undefined")


def _blocked_gradients(subject: Subject, blocked: tuple[int, ...]) -> Grads:
    inputs = subject.inputs()
    with seeded():
        outputs = subject.call(inputs)
        weights = subject.grad_outputs(outputs)
        chosen = [
            (_Blocked.apply(out) if place in blocked else out, w)
            for place, (out, w) in enumerate(zip(outputs, weights, strict=True))
            if w is not None
        ]
        outs, given = zip(*chosen, strict=True)
        found = torch.autograd.grad(outs, leaves(inputs), given, allow_unused=True)
    return {place: _filled(grad, inputs[place]) for place, grad in zip(positions(inputs), found, strict=True)}


def non_differentiable_output(subject: Subject) -> Iterator[Finding]:
    """An output requires grad if, and only if, its gradient is used."""
    watching.need_a_backward(subject)
    if subject.intent.surrogate:
        raise NotImplementedError("the gradient is declared a surrogate: what depends on what is the author's choice")
    with watching.marks() as marked, seeded():
        outputs = watching.tensors(subject.call(subject.inputs()))
    slopes = _slopes(subject, len(outputs))
    for place, out in enumerate(outputs):
        if not (out.is_floating_point() or out.is_complex()) or slopes.get(place) is None:
            continue
        depends = slopes[place]
        if not out.requires_grad:
            declared = any(out is each for each in marked.non_differentiable)
            if depends and not (declared and subject.reference is None):
                yield _cut_off(place, declared)
        elif not _uses(subject, place):
            yield from _ignored(subject, place, depends)


def _cut_off(place: int, declared: bool) -> Finding:
    how = "is marked non-differentiable" if declared else "does not require grad"
    fix = "return tensors themselves or in a tuple, not in a list or dict; mark only what has no derivative"
    return Finding(f"it depends on an input that requires grad, but {how}", f"output {place}", fix=fix)


def _ignored(subject: Subject, place: int, depends: bool) -> Iterator[Finding]:
    """An output that claims a gradient and drops it. The reference decides whether it should have one."""
    where = f"output {place}"
    if depends:
        message = "its gradient is dropped: it requires grad and depends on an input, but every gradient is zero"
        yield Finding(message, where, fix="add its term in the backward, or call ctx.mark_non_differentiable")
    elif subject.reference is None:
        message = "it requires grad, but neither it nor any gradient depends on an input here"
        yield Finding(message, where, "requires_grad=True", "requires_grad=False", None, MARK, INFO)
    elif not _requires_grad_in_reference(subject, place):
        message = "it requires grad although it has no derivative: a loss that uses it is silently not trained"
        yield Finding(message, where, "requires_grad=True", "requires_grad=False", None, MARK)


MARK = "call ctx.mark_non_differentiable on it in the forward"


def _requires_grad_in_reference(subject: Subject, place: int) -> bool:
    outputs = watching.tensors(subject.call(subject.inputs(), subject.reference))
    return place >= len(outputs) or outputs[place].requires_grad


def _uses(subject: Subject, place: int) -> bool:
    """Whether any gradient is other than zero when this output alone has a grad_output that is not zero."""
    inputs = subject.inputs()
    with seeded():
        outputs = watching.tensors(subject.call(inputs))
        weights = subject.grad_outputs(outputs)
        chosen = [
            (out, w if each == place else torch.zeros_like(w))
            for each, (out, w) in enumerate(zip(outputs, weights, strict=True))
            if w is not None
        ]
        outs, given = zip(*chosen, strict=True)
        found = torch.autograd.grad(outs, leaves(inputs), given, allow_unused=True)
    return any(grad is not None and bool(grad.any()) for grad in found)


def _slopes(subject: Subject, count: int) -> dict[int, bool]:
    """Whether each output has a derivative that is not zero, by the reference or by differences; else absent."""
    if subject.reference is not None:
        return _slopes_of_reference(subject, count)
    base, again, moved = (_forward(subject, step) for step in (0.0, 0.0, watching.STEP))
    if not len(base) == len(again) == len(moved) == count:
        return {}
    return {
        place: not same_bits([base[place]], [moved[place]])
        for place in range(count)
        if same_bits([base[place]], [again[place]])
    }


def _forward(subject: Subject, step: float) -> list[torch.Tensor]:
    inputs = watching.moved(subject.inputs(), positions(subject.inputs()), step)
    with seeded():
        return [out.detach() for out in watching.tensors(subject.call(inputs))]


def _slopes_of_reference(subject: Subject, count: int) -> dict[int, bool]:
    inputs = exact(subject.inputs())
    with seeded():
        outputs = watching.tensors(subject.call(inputs, subject.reference))
    if len(outputs) != count:
        return {}
    weights = subject.grad_outputs(outputs)
    found = {}
    for place, (out, w) in enumerate(zip(outputs, weights, strict=True)):
        grads = (
            torch.autograd.grad(out, leaves(inputs), w, allow_unused=True, retain_graph=True) if w is not None else ()
        )
        found[place] = any(grad is not None and bool(grad.any()) for grad in grads)
    return found


RULES = (
    Rule("unused-output", "error", "an output that is not used counts as one with gradient zero", unused_output),
    Rule("none-grad", "error", "a gradient that the engine leaves undefined counts as zero", none_grad),
    Rule(
        "non-differentiable-output",
        "error",
        "an output requires grad if and only if the backward uses its gradient",
        non_differentiable_output,
    ),
)
