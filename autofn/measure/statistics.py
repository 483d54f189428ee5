"""Medians, ratios and their intervals. Knows nothing of what the numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

Values = Sequence[float]


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; low and high are None where there are too few values for one."""

    value: float
    low: float | None
    high: float | None

    def map(self, function: Callable[[float], float]) -> Estimate:
        """The estimate of a rising function of the value."""
        bounds = (None if bound is None else function(bound) for bound in (self.low, self.high))
        return Estimate(function(self.value), *bounds)


def estimate(values: Values, confidence: float = 0.95) -> Estimate:
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


def ratio(baseline: Values, other: Values, confidence: float = 0.95) -> Estimate:
    """baseline / other, from pairs taken in the same round: above 1 means that `other` is faster."""
    return estimate([a / b for a, b in zip(baseline, other, strict=True)], confidence)


def centre(values: Values, confidence: float = 0.95) -> Estimate:
    """The Hodges-Lehmann centre: the median of all pairwise means, with the interval of Wilcoxon's signed-rank test.

    Nearly as narrow as Student's interval where values are normal, and hardly moved by one outlier among them, which
    would widen Student's a lot. Exact for symmetric distributions; at least six values make a 95 % interval.
    Source: Hodges and Lehmann 1963, doi:10.1214/aoms/1177704172. Raises ValueError without values.
    """
    if not values:
        raise ValueError("centre: at least one value is needed, got none")
    means = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    cut = _signed_rank_cut(len(values), confidence)
    if cut is None:
        return Estimate(median(means), None, None)
    return Estimate(median(means), means[cut], means[-1 - cut])


def over_processes(processes: Sequence[Values], confidence: float = 0.95) -> Estimate:
    """The centre of the processes' medians, on a log scale: what a further process would show, give or take chance."""
    return centre([math.log(median(values)) for values in processes], confidence).map(math.exp)


def ratio_over_processes(baseline: Sequence[Values], other: Sequence[Values], confidence: float = 0.95) -> Estimate:
    """baseline / other: paired by round inside each generation of processes, the interval taken over generations."""
    return centre(paired_logs(baseline, other), confidence).map(math.exp)


def paired_logs(baseline: Sequence[Values], other: Sequence[Values]) -> list[float]:
    """log(baseline / other) of each generation: the median over its rounds, round by round."""
    return [
        median(math.log(a / b) for a, b in zip(one, two, strict=True)) for one, two in zip(baseline, other, strict=True)
    ]


def _rank(count: int, confidence: float) -> int | None:
    """The largest k for which 2 P(X < k) <= 1 - confidence, X being binomial(count, 1/2); None if k would be 0."""
    tail, rank = 0.0, 0
    while rank < count:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    return rank or None


@cache
def _signed_rank_cut(count: int, confidence: float) -> int | None:
    """How many of the smallest pairwise means lie outside the interval; None where even 0 is too many.

    The signed-rank statistic of n values is a sum over a random subset of 1..n; the cut is the largest c for which
    2 P(T <= c - 1) <= 1 - confidence.
    """
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for total, number in enumerate(ways):
            longer[total + rank] += number
        ways = longer
    tail, cut = 0, 0
    for number in ways:
        tail += number
        if 2 * tail > (1 - confidence) * 2**count:
            break
        cut += 1
    return cut - 1 if cut else None
