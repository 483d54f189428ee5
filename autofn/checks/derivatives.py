"""The backward against the forward itself, by finite differences; and the second derivative: right, or refused."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd.gradcheck import GradcheckError

from ..case import Case
from ..compiled import replayable
from .rule import Outcome, Rule, Subject, not_applicable, passed, violated

# float64: the central difference errs by eps**2 times a third derivative, and by 1e-16 / eps of rounding.
EPS, ATOL = 1e-6, 1e-4

# What torch.compile says instead of a second derivative; where it gives one, it must be right.
COMPILERS_REFUSALS = ("does not currently support double backward", "compiled with non-empty donated buffers")


def gradcheck(subject: Subject) -> Outcome:
    """torch.autograd.gradcheck in float64: analytical against numerical Jacobian."""
    if reason := _no_differences(subject):
        return not_applicable(reason)
    case = subject.case()
    with replayable():
        return _verdict(lambda: torch.autograd.gradcheck(case.apply, case.inputs, eps=EPS, atol=ATOL))


def double_backward(subject: Subject) -> Outcome:
    """gradgradcheck in float64; or, where the Spec declares the variant once differentiable, an error on use.

    A refusal must hold for a constant grad_output too, where a silent zero is the usual fault: a gradient penalty then
    contributes nothing.
    """
    if subject.spec.refuses_double_backward(subject.key.variant):
        return _refuses(subject.case())
    if reason := _no_differences(subject):
        return not_applicable(reason)
    case = subject.case()
    with replayable():
        return _verdict(lambda: torch.autograd.gradgradcheck(case.apply, case.inputs, eps=EPS, atol=ATOL))


def _no_differences(subject: Subject) -> str | None:
    if subject.spec.random:
        return "the Function is random: finite differences would see two draws"
    if subject.spec.surrogate:
        return "the gradient is declared a surrogate: it is not the derivative of the forward"
    if subject.spec.mutates:
        return "the forward writes to an input: finite differences would see changed inputs"
    return None


def _verdict(run: Callable[[], bool]) -> Outcome:
    try:
        run()
    except GradcheckError as error:
        return violated(" ".join(str(error).split())[:500])
    except RuntimeError as error:
        if any(words in str(error) for words in COMPILERS_REFUSALS):
            return passed()
        raise
    return passed()


def _refuses(case: Case) -> Outcome:
    grads = case.backward(case.forward(), create_graph=True)
    tracked = [grad for grad in grads if grad is not None and grad.requires_grad]
    if not tracked:
        return violated(
            "the second derivative is silently zero for a constant grad_output; it must be right or refused"
        )
    try:
        torch.autograd.grad([grad.sum() for grad in tracked], case.leaves, allow_unused=True)
    except NotImplementedError:
        return passed()
    return violated("declared once differentiable, but a second derivative came out; declare it or refuse it")


RULES = (
    Rule("gradcheck", "error", "the backward is the derivative of the forward", gradcheck),
    Rule("double-backward", "error", "the second derivative is right, or refused with an error", double_backward),
)
