"""Outputs and gradients against the reference in float64, within the tolerance that the Spec declares."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..case import Outputs, as_tuple, exact_inputs
from .rule import Outcome, Rule, Subject, not_applicable, passed, violated


def value(subject: Subject) -> Outcome:
    """The outputs equal the reference's in float64, and have the dtype and shape of the variant `eager`."""
    if subject.spec.random:
        return not_applicable("the Function is random: two calls differ by design")
    case = subject.case()
    with torch.no_grad():
        want = as_tuple(subject.spec.reference(*exact_inputs(case.inputs)))
        kind = as_tuple(subject.spec.reference(*subject.case().inputs))
    return _compare(subject, "output", case.forward(), want, kind)


def gradient(subject: Subject) -> Outcome:
    """The gradients of all inputs equal those of the reference in float64 (or of the declared surrogate)."""
    if subject.spec.random:
        return not_applicable("the Function is random: its gradient belongs to one draw")
    case = subject.case()
    exact = exact_inputs(case.inputs)
    leaves = [t for t in exact if isinstance(t, torch.Tensor) and t.requires_grad]
    truth = as_tuple((subject.spec.surrogate or subject.spec.reference)(*exact))
    want = torch.autograd.grad(truth, leaves, [g.double() for g in case.grad_outputs])
    got = case.backward(case.forward())
    missing = [str(position) for position, grad in enumerate(got) if grad is None]
    if missing:
        return violated(f"the gradient is None for input {', '.join(missing)}, which requires grad")
    return _compare(subject, "gradient", [grad for grad in got if grad is not None], want, case.leaves)


def _compare(
    subject: Subject, what: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], kind: Outputs
) -> Outcome:
    if len(got) != len(want):
        return violated(f"{len(want)} tensors were expected, got {len(got)}")
    worst = 0.0
    for position, (mine, exact, like) in enumerate(zip(got, want, kind, strict=True)):
        if mine.shape != like.shape or mine.dtype != like.dtype:
            return violated(
                f"{what} {position} must be {like.dtype} of shape {list(like.shape)}, "
                f"got {mine.dtype} of shape {list(mine.shape)}"
            )
        allowed = subject.spec.tolerance(like.dtype)
        worst = max(worst, _worst(mine.detach().double(), exact.detach()))
        try:
            torch.testing.assert_close(
                mine.detach().double(), exact.detach(), rtol=allowed.rtol, atol=allowed.atol, equal_nan=True
            )
        except AssertionError as mismatch:
            lines = [line for line in str(mismatch).splitlines() if line.strip()]
            return violated(f"{what} {position} differs from the float64 reference: {' '.join(lines[1:])}", worst)
    return passed(worst)


def _worst(mine: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest difference; that of a NaN or an infinity that only one of the two has is the largest number."""
    error = (mine - exact).abs()
    error = torch.where(mine == exact, 0, error)
    error = torch.where(mine.isnan() & exact.isnan(), 0, error)
    largest = torch.finfo(error.dtype).max
    return error.nan_to_num(nan=largest, posinf=largest).max().item() if error.numel() else 0.0


RULES = (
    Rule("value", "error", "the outputs equal those of the reference in float64", value, every_case=True),
    Rule("gradient", "error", "the gradients equal those of the reference in float64", gradient, every_case=True),
)
