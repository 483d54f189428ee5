"""The backward against the forward itself, by finite differences; and the second derivative: right, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch.autograd.gradcheck import GradcheckError

from ..case import Case, Outputs
from ..compiled import replayable
from ..records import OK
from .rule import Outcome, Rule, Subject, not_applicable, passed, violated

# float64: the central difference errs by eps**2 times a third derivative, and by 1e-16 / eps of rounding.
EPS, ATOL = 1e-6, 1e-4
# Two second derivatives by autograd in float64 differ by roundings alone: a thousand of them, and a margin of 2,000.
RTOL = 1e-10

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

    Both must hold for a constant grad_output too, where a silent zero is the usual fault: a gradient penalty then
    contributes nothing.
    """
    if subject.spec.refuses_double_backward(subject.key.variant):
        return _refuses(subject)
    if reason := _no_differences(subject):
        return not_applicable(reason)
    case = subject.case()
    with replayable():
        found = _verdict(lambda: torch.autograd.gradgradcheck(case.apply, case.inputs, eps=EPS, atol=ATOL))
        return _verdict(lambda: _compare_for_a_constant(subject)) if found.status == OK else found


def _no_differences(subject: Subject) -> str | None:
    if subject.spec.random:
        return "the Function is random: finite differences would see two draws"
    if subject.spec.surrogate:
        return "the gradient is declared a surrogate: it is not the derivative of the forward"
    if subject.spec.mutates:
        return "the forward writes to an input: finite differences would see changed inputs"
    return None


def _verdict(run: Callable[[], object]) -> Outcome:
    try:
        run()
    except GradcheckError as error:
        return violated(" ".join(str(error).split())[:500])
    except RuntimeError as error:
        if any(words in str(error) for words in COMPILERS_REFUSALS):
            return passed()
        raise
    return passed()


def _compare_for_a_constant(subject: Subject) -> None:
    """Raises GradcheckError where a gradient, differentiated again, is not the reference's; grad_output is constant."""
    for position, (case, grad, true_case, true_grad) in enumerate(_gradients(subject, tracked=False)):
        got, want = _second(grad, case.leaves), _second(true_grad, true_case.leaves)
        for leaf, (mine, exact) in enumerate(zip(got, want, strict=True)):
            if not torch.allclose(mine, exact, rtol=RTOL, atol=RTOL, equal_nan=True):
                zero = "silently zero" if not mine.any() else "wrong"
                raise GradcheckError(
                    f"for a constant grad_output the derivative of gradient {position} in input {leaf} is {zero}"
                )


def _refuses(subject: Subject) -> Outcome:
    """Every gradient whose second derivative is not 0 must raise when it is differentiated."""
    for tracked, kind in ((False, "constant"), (True, "tracked")):
        for position, (case, grad, true_case, true_grad) in enumerate(_gradients(subject, tracked)):
            if not any(exact.any() for exact in _second(true_grad, _variables(true_case))):
                continue
            if grad is None or not grad.requires_grad:
                return violated(
                    f"the second derivative of gradient {position} is silently zero for a {kind} grad_output; "
                    "it must be right or refused"
                )
            try:
                _second(grad, _variables(case))
            except NotImplementedError:
                continue
            return violated("declared once differentiable, but a second derivative came out; declare it or refuse it")
    return passed()


def _gradients(subject: Subject, tracked: bool) -> list[tuple[Case, torch.Tensor | None, Case, torch.Tensor | None]]:
    """The variant's gradients beside those of the reference, each with its case, all differentiable again."""
    found = []
    truth = replace(subject, apply=subject.spec.surrogate or subject.spec.reference)
    for one in (subject, truth):
        case = one.case()
        case = replace(case, grad_outputs=tuple(g.clone().requires_grad_(tracked) for g in case.grad_outputs))
        found.append((case, case.backward(case.forward(), create_graph=True)))
    (case, grads), (true_case, true_grads) = found
    return [(case, mine, true_case, exact) for mine, exact in zip(grads, true_grads, strict=True)]


def _variables(case: Case) -> Outputs:
    return (*case.leaves, *(grad for grad in case.grad_outputs if grad.requires_grad))


def _second(grad: torch.Tensor | None, variables: Outputs) -> Outputs:
    """The vjp of a gradient for weights that all differ; zeros where autograd sees no dependence."""
    if grad is None or not grad.requires_grad:
        return tuple(torch.zeros_like(variable) for variable in variables)
    weights = torch.linspace(1, 2, grad.numel(), dtype=grad.dtype, device=grad.device).reshape(grad.shape)
    found = torch.autograd.grad(grad, variables, weights, retain_graph=True, allow_unused=True)
    return tuple(torch.zeros_like(v) if d is None else d for v, d in zip(variables, found, strict=True))


RULES = (
    Rule("gradcheck", "error", "the backward is the derivative of the forward", gradcheck),
    Rule("double-backward", "error", "the second derivative is right, or refused with an error", double_backward),
)
