"""Medians and their intervals. Knows nothing of what the numbers are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Estimate:
    """A median with its interval; low and high are None where there are too few values for one."""

    value: float
    low: float | None
    high: float | None


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median and its distribution-free interval: two order statistics that enclose it with `confidence`.

    The number of values below the true median is binomial(n, 1/2), so the interval from the k-th smallest to the k-th
    largest value misses it with probability 2 P(X < k). Below six values none reaches 95 %. The values are taken as
    independent: inside one process they are not quite, so this is an interval of that process's median.
    Raises ValueError without values.
    """
    if not values:
        raise ValueError("estimate: at least one value is needed, got none")
    ordered = sorted(values)
    rank = _rank(len(ordered), confidence)
    if rank is None:
        return Estimate(median(ordered), None, None)
    return Estimate(median(ordered), ordered[rank - 1], ordered[-rank])


def ratio(baseline: Sequence[float], other: Sequence[float], confidence: float = 0.95) -> Estimate:
    """baseline / other, from pairs taken in the same round: above 1 means that `other` is faster."""
    return estimate([a / b for a, b in zip(baseline, other, strict=True)], confidence)


def _rank(count: int, confidence: float) -> int | None:
    """The largest k for which 2 P(X < k) <= 1 - confidence, X being binomial(count, 1/2); None if k would be 0."""
    tail, rank = 0.0, 0
    while rank < count:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    return rank or None
