"""The second derivative: right, or refused with an error; never silently zero or wrong.

A gradient is differentiated again by autograd and, beside that, by differences of the gradient itself. So the rule
needs no reference, and a wrong first gradient, or one that is a surrogate on purpose, is not blamed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch

from ..compiled import replayable
from .rule import ERROR, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.pure import Pure, Tensors, classes, deliberate, dot, own_classes, pure, seeded, told
from .tools.slopes import JITTER, RTOL, Point, Slope, differences, point_of, settled, slopes_of

# Where differences do not settle (float32 inside, for one) the reference's do, and tell zero from not zero.
COARSE = 0.05

FIX = (
    "save only inputs and outputs and compute with differentiable operations in the backward, "
    "or refuse with autofn.refusal.refuse_double_backward"
)
ONCE_FIX = (
    "once_differentiable does not look at saved tensors; autofn.refusal.refuse_double_backward raises in this case too"
)


@dataclass(frozen=True)
class Answer:
    """What autograd says of one gradient: its slope in each variable (None: no dependence), or the error it raised."""

    slopes: tuple[float | None, ...] = ()
    error: Exception | None = None


def double_backward(subject: Subject) -> Iterator[Finding | Seen]:
    """Each gradient in each input and in grad_output, for a constant grad_output and for one that requires grad."""
    with replayable() if subject.compiled else nullcontext():
        function = pure(subject)
        point, slopes = settled(function)
        answers = {kind: _answers(function, point, kind == "tracked") for kind in ("constant", "tracked")}
        if subject.intent.once_differentiable:
            yield from _held_to_its_refusal(subject, answers, slopes)
            return
        wrong = list(_wrong(subject, answers, slopes)) or list(_wrong_alone(function, point, slopes))
        if subject.intent.surrogate and not subject.written:
            wrong = [_of_a_formula(each) for each in wrong]
        refused = [] if wrong else list(_refused(answers))
        yield from wrong
        yield from refused
        if not wrong and not refused and not subject.compiled and own_classes(subject):
            yield from _third(function, point)
        if not wrong:
            yield Seen(_worst(answers, slopes))


# Autograd


def _answers(function: Pure, point: Point, tracked: bool, only: int | None = None) -> list[Answer]:
    """An answer for each gradient. only: the one leaf that requires grad."""
    leaves = tuple(
        t.detach().clone().requires_grad_(only is None or place == only) for place, t in enumerate(point.leaves)
    )
    weights = tuple(t.detach().clone().requires_grad_(tracked) for t in point.weights)
    vectors = point.vectors if only is None else point.vectors[only : only + 1]
    try:
        grads = function.gradients(leaves, weights, create_graph=True)
    except Exception as error:  # whatever a backward raises when it is recorded
        return [Answer(error=error)] * len(vectors)
    variables = (*leaves, *weights)
    return [_answer(grad, vector, variables, point) for grad, vector in zip(grads, vectors, strict=True)]


def _answer(grad: torch.Tensor | None, vector: torch.Tensor, variables: Tensors, point: Point) -> Answer:
    followed = [t for t in variables if t.requires_grad]
    try:
        found = iter(_vjp(grad, followed, vector))
    except Exception as error:  # a refusal, or what a backward raises by accident
        return Answer(error=error)
    slopes = (next(found) if t.requires_grad else None for t in variables)
    return Answer(tuple(None if d is None else dot(d, v) for d, v in zip(slopes, point.directions, strict=False)))


def _vjp(
    grad: torch.Tensor | None, variables: list[torch.Tensor], vector: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    if grad is None or not grad.requires_grad:
        return tuple(None for _ in variables)
    found = torch.autograd.grad(grad, variables, vector.to(grad), retain_graph=True, allow_unused=True)
    if all(each is None for each in found):
        # The node of once_differentiable, which only raises, is linked to no variable: only a full backward meets it.
        torch.autograd.backward(grad, vector.to(grad), retain_graph=True)
    return found


# What follows from the two


@dataclass(frozen=True)
class Miss:
    """A second derivative that is not what the gradient does: of one gradient in one variable."""

    gradient: int
    variable: int
    found: float | None
    slope: Slope

    @property
    def error(self) -> float:
        return abs((self.found or 0.0) - self.slope.value)


def _misses(answers: list[Answer], slopes: list[list[Slope]], variables: int, rtol: float = RTOL) -> list[Miss]:
    return [
        Miss(gradient, variable, answer.slopes[variable], row[variable])
        for gradient, (answer, row) in enumerate(zip(answers, slopes, strict=True))
        if answer.error is None
        for variable in range(variables)
        if row[variable].settled and not row[variable].equals(answer.slopes[variable] or 0.0, rtol)
    ]


def _seen_variables(kind: str, slopes: list[list[Slope]]) -> int:
    """A constant grad_output is no variable."""
    return len(slopes[0]) if kind == "tracked" else len(slopes)


def _wrong(subject: Subject, answers: dict[str, list[Answer]], slopes: list[list[Slope]]) -> Iterator[Finding]:
    for kind, each in answers.items():
        misses = _misses(each, slopes, _seen_variables(kind, slopes)) or _missed_beside_the_reference(
            subject, each, slopes, kind
        )
        if not misses:
            continue
        miss = max(misses, key=lambda miss: miss.error)
        decorated = not miss.found and kind == "constant" and _marked_once(subject)
        yield _described(miss, kind, len(slopes), INFO if decorated else ERROR)
        return


def _described(miss: Miss, kind: str, leaves: int, severity: str) -> Finding:
    inside = f"input {miss.variable}" if miss.variable < leaves else f"grad_output {miss.variable - leaves}"
    what = "wrong" if miss.found else "silently zero"
    declared = "marked once_differentiable, which does not refuse here: " if severity == INFO else ""
    return Finding(
        f"{declared}the second derivative is {what} for a {kind} grad_output: that of gradient {miss.gradient} "
        f"in {inside}, along a random direction",
        f"gradient {miss.gradient}",
        "0 (no dependence)" if miss.found is None else f"{miss.found:.6g}",
        f"{miss.slope.value:.6g} by differences of the gradient",
        miss.error,
        ONCE_FIX if severity == INFO else FIX,
        severity,
    )


def _tells(slope: Slope) -> bool:
    """Whether a second derivative that is silently zero would be seen beside this slope."""
    return slope.settled and abs(slope.value) > slope.slack


def _missed_beside_the_reference(
    subject: Subject, answers: list[Answer], slopes: list[list[Slope]], kind: str
) -> list[Miss]:
    """Where no difference of the gradient settled, or zeros alone: what the reference's do in float64, coarsely."""
    if subject.truth is None or subject.intent.random or any(_tells(slope) for row in slopes for slope in row):
        return []
    try:
        exact = pure(subject, torch.float64, subject.truth)
        right = slopes_of(exact, point_of(exact, JITTER))
        mine = _answers(pure(subject), point_of(pure(subject), JITTER), kind == "tracked")
    except NotImplementedError:
        return []
    return _misses(mine, right, _seen_variables(kind, slopes), COARSE)


def _wrong_alone(function: Pure, point: Point, slopes: list[list[Slope]]) -> Iterator[Finding]:
    """The same for each leaf that alone requires grad: what is saved may depend on that."""
    if len(point.leaves) == 1:
        return
    for only, row in enumerate(slopes):
        (answer,) = _answers(function, point, True, only)
        if answer.error is not None:
            continue
        known = [
            replace(slope, settled=slope.settled and (variable == only or variable >= len(slopes)))
            for variable, slope in enumerate(row)
        ]
        for miss in _misses([answer], [known], len(known)):
            found = _described(replace(miss, gradient=only), "tracked", len(slopes), ERROR)
            yield replace(found, message=f"{found.message}, where no other input requires grad")
            return


def _of_a_formula(found: Finding) -> Finding:
    """What autograd makes of detached pairs is symmetric, which the slopes of a surrogate gradient need not be."""
    why = "a surrogate in PyTorch's own operations is differentiated again as they say, detached parts as constants"
    return replace(found, message=f"{why}: {found.message}", fix="", severity=INFO)


def _refused(answers: dict[str, list[Answer]]) -> Iterator[Finding]:
    errors = [answer.error for each in answers.values() for answer in each if answer.error is not None]
    if not errors:
        return
    error = errors[0]
    if deliberate(error) or isinstance(error, RuntimeError):
        yield Finding(f"refuses a second derivative: {told(error)}", severity=INFO)
    else:
        yield Finding(
            f"a second derivative raises {told(error)}", fix=f"refuse it in clear words: {FIX}", severity=WARNING
        )


def _held_to_its_refusal(
    subject: Subject, answers: dict[str, list[Answer]], slopes: list[list[Slope]]
) -> Iterator[Finding]:
    """A second derivative that is there is right; where none is refused, the declaration is not true.

    An operator may refuse that of some gradients and leave that of another, such as a bias, to autograd.
    """
    wrong = list(_wrong(subject, answers, slopes))
    yield from wrong
    if wrong:
        return
    if any(answer.error is not None for each in answers.values() for answer in each):
        return
    for each in answers.values():
        for gradient, (answer, row) in enumerate(zip(each, slopes, strict=True)):
            if any(abs(found or 0.0) > slope.slack for found, slope in zip(answer.slopes, row, strict=False)):
                yield Finding(
                    "declared once differentiable, but a second derivative came out; declare it or refuse it",
                    f"gradient {gradient}",
                    severity=WARNING,
                )
                return


def _marked_once(subject: Subject) -> bool:
    """Whether a Function on the way has PyTorch's own once_differentiable around its backward."""
    return any(
        each.backward.__code__.co_filename == torch.autograd.function.__file__
        for each in classes(subject)
        if hasattr(each.backward, "__code__") and hasattr(each.backward, "__wrapped__")
    )


def _worst(answers: dict[str, list[Answer]], slopes: list[list[Slope]]) -> float:
    errors = [
        abs((answer.slopes[variable] or 0.0) - slope.value)
        for kind, each in answers.items()
        for answer, row in zip(each, slopes, strict=True)
        if answer.error is None
        for variable, slope in enumerate(row[: _seen_variables(kind, slopes)])
        if slope.settled
    ]
    return max(errors, default=0.0)


# The third derivative


def _third(function: Pure, point: Point) -> Iterator[Finding]:
    """The vjp of the gradients, differentiated once more, where the second derivative is right and not refused."""

    def seconds(variables: Tensors) -> tuple[torch.Tensor | None, ...]:
        leaves = tuple(t.detach().clone().requires_grad_() for t in variables[: len(point.leaves)])
        return _second(function, point, leaves, False)

    leaves = tuple(t.detach().clone().requires_grad_() for t in point.leaves)
    try:
        slopes = differences(seconds, point, len(leaves))
        here = _second(function, point, leaves, True)
    except Exception:  # refused, which a third derivative may be
        return
    answers = [_answer(each, vector, leaves, point) for each, vector in zip(here, point.vectors, strict=True)]
    misses = _misses(answers, slopes, len(leaves))
    if misses:
        miss = max(misses, key=lambda miss: miss.error)
        found = _described(miss, "constant", len(leaves), ERROR)
        told = found.message.replace("the second derivative", "the third derivative")
        yield replace(found, message=told.replace("that of gradient", "that of second derivative"))


def _second(function: Pure, point: Point, leaves: Tensors, graph: bool) -> tuple[torch.Tensor | None, ...]:
    """The gradients' vjp for the point's vectors."""
    with seeded():
        grads = function.gradients(leaves, point.weights, create_graph=True)
        chosen = [(g, v) for g, v in zip(grads, point.vectors, strict=True) if g is not None and g.requires_grad]
        if not chosen:
            return tuple(None for _ in leaves)
        outs, vectors = zip(*chosen, strict=True)
        return torch.autograd.grad(outs, leaves, vectors, allow_unused=True, create_graph=graph)


RULES = (Rule("double-backward", ERROR, "the second derivative is right, or refused with an error", double_backward),)
