"""Outputs and gradients against the reference in float64, within the tolerance that the Spec declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ..case import Outputs
from ..spec import Tolerance
from .rule import Finding, Rule, Seen
from .subject import Subject, exact, leaves

# For one without a Spec, in float64.
GENERIC = Tolerance(1e-9, 1e-9, "a million roundings of 1e-16")


def value(subject: Subject) -> Iterator[Finding | Seen]:
    """The outputs equal the reference's in float64, and have the dtype and shape of the variant `eager`."""
    if subject.intent.random:
        raise NotImplementedError("the Function is random: two calls differ by design")
    if subject.reference is None:
        raise NotImplementedError("there is no reference to hold the outputs against")
    inputs = subject.inputs()
    with torch.no_grad():
        want = subject.call(exact(inputs), subject.reference)
        kind = subject.call(subject.inputs(), subject.reference)
    yield from _compare(subject, "output", subject.call(inputs), want, kind)


def gradient(subject: Subject) -> Iterator[Finding | Seen]:
    """The gradients of all inputs equal those of the reference in float64 (or of the declared surrogate)."""
    if subject.intent.random:
        raise NotImplementedError("the Function is random: its gradient belongs to one draw")
    if subject.truth is None:
        raise NotImplementedError("there is no reference to hold the gradients against")
    inputs = subject.inputs()
    outputs = subject.call(inputs)
    weights = subject.grad_outputs(outputs)
    exact_weights = tuple(None if w is None else w.double() for w in weights)
    want = subject.gradients(exact(inputs), exact_weights, subject.truth)
    got = subject.gradients(inputs, weights)
    missing = [str(position) for position, grad in enumerate(got) if grad is None]
    if missing:
        yield Finding(f"the gradient is None for input {', '.join(missing)}, which requires grad")
        return
    yield from _compare(subject, "gradient", got, want, leaves(inputs))  # type: ignore[arg-type]


def _compare(
    subject: Subject, what: str, got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], kind: Outputs
) -> Iterator[Finding | Seen]:
    if len(got) != len(want):
        yield Finding(f"{len(want)} tensors were expected, got {len(got)}")
        return
    for position, (mine, right, like) in enumerate(zip(got, want, kind, strict=True)):
        if mine.shape != like.shape or mine.dtype != like.dtype:
            yield Finding(
                f"{what} {position} must be {like.dtype} of shape {list(like.shape)}, "
                f"got {mine.dtype} of shape {list(mine.shape)}"
            )
            continue
        allowed = subject.tolerances.get(like.dtype, GENERIC)
        error = _worst(mine.detach().double(), right.detach())
        try:
            torch.testing.assert_close(
                mine.detach().double(), right.detach(), rtol=allowed.rtol, atol=allowed.atol, equal_nan=True
            )
        except AssertionError as mismatch:
            lines = [line for line in str(mismatch).splitlines() if line.strip()]
            yield Finding(f"{what} {position} differs from the float64 reference: {' '.join(lines[1:])}", error=error)
        else:
            yield Seen(error)


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
