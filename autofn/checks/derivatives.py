"""The backward against the forward itself, by finite differences; and the second derivative: right, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.autograd.gradcheck import GradcheckError

from ..compiled import replayable
from .rule import Finding, Rule
from .subject import Inputs, Subject, leaves

# float64: the central difference errs by eps**2 times a third derivative, and by 1e-16 / eps of rounding.
EPS, ATOL = 1e-6, 1e-4
# Two second derivatives by autograd in float64 differ by roundings alone: a thousand of them, and a margin of 2,000.
RTOL = 1e-10

# What torch.compile says instead of a second derivative; where it gives one, it must be right.
COMPILERS_REFUSALS = ("does not currently support double backward", "compiled with non-empty donated buffers")

Tensors = tuple[torch.Tensor, ...]


def gradcheck(subject: Subject) -> Iterator[Finding]:
    """torch.autograd.gradcheck in float64: analytical against numerical Jacobian."""
    _need_differences(subject)
    with replayable():
        try:
            torch.autograd.gradcheck(subject.apply, subject.inputs(), eps=EPS, atol=ATOL)
        except GradcheckError as error:
            yield _quoted(error)


def double_backward(subject: Subject) -> Iterator[Finding]:
    """gradgradcheck in float64; or, where it is declared once differentiable, an error on use.

    Both must hold for a constant grad_output too, where a silent zero is the usual fault: a gradient penalty then
    contributes nothing.
    """
    if subject.intent.once_differentiable:
        yield from _refuses(subject)
        return
    _need_differences(subject)
    with replayable():
        try:
            torch.autograd.gradgradcheck(subject.apply, subject.inputs(), eps=EPS, atol=ATOL)
            yield from _compare_for_a_constant(subject)
        except GradcheckError as error:
            yield _quoted(error)
        except RuntimeError as error:
            if not any(words in str(error) for words in COMPILERS_REFUSALS):
                raise


def _need_differences(subject: Subject) -> None:
    if subject.intent.random:
        raise NotImplementedError("the Function is random: finite differences would see two draws")
    if subject.intent.surrogate:
        raise NotImplementedError("the gradient is declared a surrogate: it is not the derivative of the forward")
    if subject.intent.mutates:
        raise NotImplementedError("the forward writes to an input: finite differences would see changed inputs")


def _quoted(error: GradcheckError) -> Finding:
    return Finding(" ".join(str(error).split())[:500])


def _compare_for_a_constant(subject: Subject) -> Iterator[Finding]:
    """Where a gradient, differentiated again, is not the reference's; grad_output is constant."""
    if subject.truth is None:
        return
    for position, (mine, true) in enumerate(_gradients(subject, tracked=False)):
        got, want = _second(mine.grad, leaves(mine.inputs)), _second(true.grad, leaves(true.inputs))
        for leaf, (found, right) in enumerate(zip(got, want, strict=True)):
            if not torch.allclose(found, right, rtol=RTOL, atol=RTOL, equal_nan=True):
                zero = "silently zero" if not found.any() else "wrong"
                yield Finding(
                    f"for a constant grad_output the derivative of gradient {position} in input {leaf} is {zero}"
                )
                return


def _refuses(subject: Subject) -> Iterator[Finding]:
    """Every gradient whose second derivative is not 0 must raise when it is differentiated."""
    if subject.truth is None:
        return
    for tracked, kind in ((False, "constant"), (True, "tracked")):
        for position, (mine, true) in enumerate(_gradients(subject, tracked)):
            if not any(exact.any() for exact in _second(true.grad, true.variables)):
                continue
            if mine.grad is None or not mine.grad.requires_grad:
                yield Finding(
                    f"the second derivative of gradient {position} is silently zero for a {kind} grad_output; "
                    "it must be right or refused"
                )
                return
            try:
                _second(mine.grad, mine.variables)
            except NotImplementedError:
                continue
            yield Finding("declared once differentiable, but a second derivative came out; declare it or refuse it")
            return


class _Gradient:
    """One gradient, differentiable again, with the inputs and grad_outputs that it came from."""

    def __init__(self, grad: torch.Tensor | None, inputs: Inputs, weights: Tensors) -> None:
        self.grad, self.inputs, self.weights = grad, inputs, weights

    @property
    def variables(self) -> Tensors:
        return (*leaves(self.inputs), *(w for w in self.weights if w.requires_grad))


def _gradients(subject: Subject, tracked: bool) -> list[tuple[_Gradient, _Gradient]]:
    """The gradients beside those of the reference."""
    found = []
    for apply in (subject.apply, subject.truth):
        inputs = subject.inputs()
        given = subject.grad_outputs(subject.call(subject.inputs(), apply))
        weights = tuple(g.requires_grad_(tracked) for g in given if g is not None)
        grads = subject.gradients(inputs, weights, apply, create_graph=True)
        found.append([_Gradient(grad, inputs, weights) for grad in grads])
    return list(zip(*found, strict=True))


def _second(grad: torch.Tensor | None, variables: Tensors) -> Tensors:
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
