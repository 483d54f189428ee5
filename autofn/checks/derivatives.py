"""The backward against the forward itself, by finite differences."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.autograd.gradcheck import GradcheckError

from ..compiled import replayable
from .rule import Finding, Rule
from .subject import Subject

# float64: the central difference errs by eps**2 times a third derivative, and by 1e-16 / eps of rounding.
EPS, ATOL = 1e-6, 1e-4


def gradcheck(subject: Subject) -> Iterator[Finding]:
    """torch.autograd.gradcheck in float64: analytical against numerical Jacobian."""
    _need_differences(subject)
    with replayable():
        try:
            torch.autograd.gradcheck(subject.apply, subject.inputs(), eps=EPS, atol=ATOL)
        except GradcheckError as error:
            yield _quoted(error)


def _need_differences(subject: Subject) -> None:
    if subject.intent.random:
        raise NotImplementedError("the Function is random: finite differences would see two draws")
    if subject.intent.surrogate:
        raise NotImplementedError("the gradient is declared a surrogate: it is not the derivative of the forward")
    if subject.intent.mutates:
        raise NotImplementedError("the forward writes to an input: finite differences would see changed inputs")


def _quoted(error: GradcheckError) -> Finding:
    return Finding(" ".join(str(error).split())[:500])


RULES = (Rule("gradcheck", "error", "the backward is the derivative of the forward", gradcheck),)
