"""Outputs and gradients at the given inputs: against the reference in float64, and the backward against the forward."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch.autograd.gradcheck import GradcheckError

from ..compiled import replayable
from .rule import WARNING, Finding, Rule, Seen
from .subject import Inputs, Subject, leaves, positions
from .tools.agreement import compare_gradients, compare_outputs
from .tools.comparing import allowed, difference
from .tools.point import Grads, Judging, Point, fresh, gradients, right_outputs, steady
from .tools.refuting import against_the_forward

GIVEN = Judging(values=True, declared=True, close=True)
# Seeds of inputs and grad_outputs, and a factor of the grad_output: a power of two, so that it costs no rounding.
SEEDS, FACTOR = (0, 1), 64.0
# gradcheck's step and tolerance, in float64; and the most numbers of a Jacobian that it is asked for.
EPS, ATOL, LARGEST_JACOBIAN = 1e-6, 1e-4, 10_000
# Characters of a quoted Jacobian.
QUOTED = 300

MISMATCH = re.compile(
    r"(Jacobian mismatch for output \d+ with respect to input (\d+)),\s*numerical:(.*)\sanalytical:(.*?)\s*$", re.S
)


def value(subject: Subject) -> Iterator[Finding | Seen]:
    """The outputs equal the reference's in float64, and have the dtype and shape that the reference gives."""
    if subject.intent.random:
        raise NotImplementedError("the Function is random: two calls differ by design")
    if subject.reference is None:
        raise NotImplementedError("there is no reference to hold the outputs against")
    if steady(subject).reference is None:
        raise NotImplementedError("two calls differ: a reference cannot draw the same numbers; declare it random")
    for seed in SEEDS:
        inputs = subject.inputs(seed=seed)
        outputs, right = subject.call(fresh(inputs)), _right(subject, inputs)
        found = [*_kinds(subject, inputs, outputs), *compare_outputs(subject, outputs, right, GIVEN)]
        yield from found
        if any(isinstance(each, Finding) for each in found):
            return


def gradient(subject: Subject) -> Iterator[Finding | Seen]:
    """The gradients are the derivatives: those of the reference, and the slopes of the forward itself.

    A declared surrogate is held against the function whose gradient it is instead, and where none is known to being
    linear in grad_output alone.
    """
    still = steady(subject)
    if subject.intent.surrogate and subject.intent.surrogate_of is None:
        yield from _linear(still)
        return
    for seed, factor in itertools.product(SEEDS, (1.0, FACTOR)):
        found = list(_at_one_point(still, seed, factor))
        yield from found
        if any(isinstance(each, Finding) for each in found):
            return


def _at_one_point(subject: Subject, seed: int, factor: float) -> Iterator[Finding | Seen]:
    inputs = subject.inputs(seed=seed)
    outputs = subject.call(fresh(inputs))
    if not any(out.requires_grad for out in outputs):
        yield _untracked(subject, inputs)
        return
    weights = subject.grad_outputs(outputs, seed + 1)
    right = None if subject.reference is None else _right(subject, inputs)
    point = Point(subject, inputs, outputs, right, weights)
    got = _scaled_down(point, factor)
    judging = GIVEN if factor == 1 else replace(GIVEN, told=f"a grad_output {factor:.0f} times as large")
    if subject.truth is not None:
        yield from compare_gradients(point, got, judging)
    if factor == 1 and not subject.intent.surrogate and subject.dtype == torch.float64:
        yield from _differences(replace(point, subject=replace(subject, reference=None), right=None), got)


def _linear(subject: Subject) -> Iterator[Finding]:
    """Whether a gradient scales and adds up with grad_output, as every vjp does; clipping is the known exception."""
    inputs = subject.inputs()
    outputs = subject.call(fresh(inputs))
    if not any(out.requires_grad for out in outputs):
        raise NotImplementedError("no output requires grad")
    first, second = (subject.grad_outputs(outputs, seed) for seed in SEEDS)
    both = tuple(None if a is None or b is None else a + b for a, b in zip(first, second, strict=True))
    point = Point(subject, inputs, outputs, None, first)
    one, other, whole = (gradients(replace(point, weights=weights)) for weights in (first, second, both))
    large = _scaled_down(point, FACTOR)
    for leaf, place in enumerate(positions(inputs)):
        alone, rest, added = (_or_zero(grads[leaf], inputs[place]) for grads in (one, other, whole))
        scaled = _or_zero(large[leaf], inputs[place])
        yield from _not_linear(subject, place, (scaled, alone), f"for a grad_output {FACTOR:.0f} times as large")
        yield from _not_linear(subject, place, (added, alone + rest), "for the sum of two grad_outputs")


def _or_zero(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if grad is None else grad.detach()


def _not_linear(
    subject: Subject, place: int, compared: tuple[torch.Tensor, torch.Tensor], when: str
) -> Iterator[Finding]:
    got, want = compared
    found = None if got.shape != want.shape else difference(got, want, *allowed(subject, want.dtype, want))
    if found is not None:
        message = f"the surrogate gradient is not linear in grad_output: {when} it is not that of its parts"
        fix = "multiply grad_output by what the inputs and outputs give; clip gradients in the optimiser's step"
        yield replace(found.finding(message, f"gradient of input {place}", fix), severity=WARNING)


def _untracked(subject: Subject, inputs: Inputs) -> Finding:
    """No output has a gradient: a fault where those of the reference have one."""
    if not leaves(inputs) or subject.truth is None:
        raise NotImplementedError("no output requires grad")
    if not any(out.requires_grad for out in subject.call(fresh(inputs), subject.truth)):
        raise NotImplementedError("no output requires grad, and none of the reference does")
    return Finding(
        "no output requires grad, although inputs do and the outputs of the reference would",
        "outputs", "requires_grad=False", "requires_grad=True", fix="do not detach them; call apply, not forward",
    )  # fmt: skip


def _scaled_down(point: Point, factor: float) -> Grads:
    """The gradients for `factor` times the weights, divided by it: the same, for a backward is linear."""
    weights = tuple(None if w is None else w * factor for w in point.weights)
    got = gradients(replace(point, weights=weights))
    return tuple(None if grad is None else grad / factor for grad in got)


def _differences(point: Point, got: Grads) -> Iterator[Finding]:
    """What differences of the forward refute; in gradcheck's words where the Jacobian is small enough to quote."""
    with replayable():
        found = list(against_the_forward(point, got, GIVEN))
        yield from (_in_the_words_of_gradcheck(point, each) for each in found)


def _in_the_words_of_gradcheck(point: Point, found: Finding) -> Finding:
    """The finding with gradcheck's two Jacobians; as it was where gradcheck finds nothing there."""
    quoted = MISMATCH.search(_gradcheck(point.subject, point.inputs))
    if quoted is None:
        return replace(found, fix=FIX)
    title, number, numerical, analytical = quoted.groups()
    where = f"gradient of input {positions(point.inputs)[int(number)]}"
    if where != found.where:
        return replace(found, fix=FIX)
    return replace(
        found,
        message=f"gradcheck: {title}, analytical (observed) against numerical (expected)",
        observed=f"analytical:{_short(analytical)}",
        expected=f"numerical:{_short(numerical)}",
        fix=FIX,
    )


FIX = "correct the formula in backward; where the gradient is not the derivative on purpose, declare it a surrogate"


def _gradcheck(subject: Subject, inputs: Inputs) -> str:
    """What torch.autograd.gradcheck says, or nothing: where it passes, and where the Jacobian is too large for it."""
    size = sum(t.numel() for t in leaves(inputs)) * sum(out.numel() for out in subject.call(fresh(inputs)))
    if size > LARGEST_JACOBIAN:
        return ""
    try:
        torch.autograd.gradcheck(
            lambda *given: subject.call(given), fresh(inputs), eps=EPS, atol=ATOL, check_undefined_grad=False
        )
    except (GradcheckError, RuntimeError, ValueError) as error:
        return str(error)
    return ""


def _right(subject: Subject, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    right = right_outputs(subject, inputs)
    if right is None:
        raise NotImplementedError("the reference raises for these inputs in float64")
    return right


def _kinds(subject: Subject, inputs: Inputs, outputs: tuple[torch.Tensor, ...]) -> Iterator[Finding]:
    """Outputs of another dtype than the reference's, called with the same inputs."""
    with torch.no_grad():
        likes = subject.call(fresh(inputs), subject.reference)
    for place, (mine, like) in enumerate(zip(outputs, likes, strict=False)):
        if mine.dtype != like.dtype:
            yield Finding(
                f"must be of {like.dtype}, as the reference gives, for inputs of {subject.dtype}",
                f"output {place}", str(mine.dtype), str(like.dtype), fix=f"return the output in {like.dtype}",
            )  # fmt: skip


def _short(jacobian: str) -> str:
    words = " ".join(jacobian.split())
    return words if len(words) <= QUOTED else f"{words[:QUOTED]}..."


RULES = (
    Rule("value", "error", "the outputs equal those of the reference in float64", value, every_case=True),
    Rule(
        "gradient", "error", "the gradients equal those of the reference, and the slopes of the forward", gradient,
        every_case=True,
    ),
)  # fmt: skip
