"""Two tensors compared: how far apart, where, and whether that is more than the arithmetic explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..rule import Finding
from ..subject import Subject

# Of a Function without a Spec: some hundred roundings of the largest element. A fault is far above, rounding below.
GENERIC = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


@dataclass(frozen=True)
class Difference:
    """The worst disagreement of two tensors: its size, its index, the two values there."""

    error: float
    index: tuple[int, ...]
    observed: str
    expected: str
    count: int
    total: int

    def finding(self, message: str, where: str, fix: str = "") -> Finding:
        """A finding that quotes the values where they disagree most."""
        place = f" at {list(self.index)}" if self.index else ""
        told = f"{message}; {self.count} of {self.total} elements, the worst{place}"
        return Finding(told, where, self.observed, self.expected, self.error, fix)


def allowed(subject: Subject, dtype: torch.dtype, want: torch.Tensor) -> tuple[float, float]:
    """(rtol, atol) for values of a dtype: those that the Spec declares, else GENERIC times the largest finite one."""
    if dtype in subject.tolerances:
        declared = subject.tolerances[dtype]
        return declared.rtol, declared.atol
    rtol = GENERIC.get(dtype.to_real() if dtype.is_complex else dtype, 0.0)
    finite = want[want.isfinite()].abs()
    return rtol, rtol * (float(finite.max()) if finite.numel() else 0.0)


def difference(
    got: torch.Tensor, want: torch.Tensor, rtol: float, atol: float, *, only_finite: bool = False
) -> Difference | None:
    """Where `got` lies farther from `want` than atol + rtol * abs(want), or None.

    NaN equals NaN and an infinity itself; anything else beside a NaN or an infinity is the largest difference there is.
    only_finite: judge only where `want` is finite. The shapes must be equal.
    """
    mine, right = _wide(got), _wide(want)
    error = (mine - right).abs()
    error = torch.where((mine == right) | (mine.isnan() & right.isnan()), 0.0, error)
    error = error.nan_to_num(nan=torch.inf)
    size = torch.where(right.isfinite(), right.abs(), 0.0)
    wrong = error > atol + rtol * size
    if only_finite:
        wrong &= right.isfinite()
    if not wrong.any():
        return None
    worst = int(torch.where(wrong, error, -1.0).argmax())
    index = tuple(int(each) for each in torch.unravel_index(torch.tensor(worst), error.shape))
    largest = min(float(error.reshape(-1)[worst]), torch.finfo(torch.float64).max)
    observed, expected = (f"{each.reshape(-1)[worst].item():.6g}" for each in (mine, right))
    return Difference(largest, index, observed, expected, int(wrong.sum()), wrong.numel())


def worst(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference, zero where both are NaN or the same infinity; finite always."""
    found = difference(got, want, 0.0, 0.0)
    return 0.0 if found is None else found.error


def same_bits(first: Sequence[torch.Tensor | None], second: Sequence[torch.Tensor | None]) -> bool:
    """Whether two lists of tensors are equal element by element, NaN beside NaN."""
    return len(first) == len(second) and all(
        a is b
        or (
            a is not None
            and b is not None
            and a.shape == b.shape
            and a.dtype == b.dtype
            and _equal(a.detach(), b.detach())
        )
        for a, b in zip(first, second, strict=True)
    )


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t.detach().to("cpu", torch.complex128 if t.dtype.is_complex else torch.float64)
