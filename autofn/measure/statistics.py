"""Medians, ratios and their intervals. Knows nothing of what the numbers are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median, stdev

Values = Sequence[float]
Nested = Sequence[Sequence[Values]]
"""A list a server of a list a generation of values, one a round."""

# Of fewer the variance is hardly known: three are 2.5 standard deviations to each side of the mean, six 1.05.
FEWEST_SERVERS = 4


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


def centre(values: Values) -> float:
    """The Hodges-Lehmann centre: the median of all pairwise means, hardly moved by one outlier.

    Source: Hodges and Lehmann 1963, doi:10.1214/aoms/1177704172. Raises ValueError without values.
    """
    if not values:
        raise ValueError("centre: at least one value is needed, got none")
    return median((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def over_processes(servers: Nested, confidence: float = 0.95) -> Estimate:
    """The centre of the generations' medians, on a log scale: what a further interpreter would show, but for chance."""
    logs = [[math.log(median(values)) for values in generations] for generations in servers]
    return over_servers(logs, confidence).map(math.exp)


def ratio_over_processes(baseline: Nested, other: Nested, confidence: float = 0.95) -> Estimate:
    """baseline / other: paired by round inside each generation of processes, the interval taken over servers."""
    return over_servers(paired_logs(baseline, other), confidence).map(math.exp)


def paired_logs(baseline: Nested, other: Nested) -> list[list[float]]:
    """log(baseline / other) of each generation of each server: the median over its rounds, round by round."""
    return [
        [median(math.log(a / b) for a, b in zip(one, two, strict=True)) for one, two in zip(ones, twos, strict=True)]
        for ones, twos in zip(baseline, other, strict=True)
    ]


def over_servers(servers: Sequence[Values], confidence: float = 0.95) -> Estimate:
    """The mean over servers with Student's interval; a server counts once, by the Hodges-Lehmann centre of its values.

    servers: a value a generation, a list a server. Generations of one server may share what they inherit, so they are
    no independent values of the mean; servers are. The variance between the servers' centres holds both that of servers
    and that of generations, in the very proportion in which the mean holds them, whatever the two are. So the interval
    covers what it claims even where generations are independent after all; it is then a little wider than it need be.
    Student's is exact for normal centres, and of six servers a fifth narrower than the interval of a rank test. Fewer
    than FEWEST_SERVERS have no interval. Raises ValueError without values.
    """
    centres = [centre(values) for values in servers]
    if not centres:
        raise ValueError("over_servers: at least one server is needed, got none")
    value = fmean(centres)
    if len(centres) < FEWEST_SERVERS:
        return Estimate(value, None, None)
    half = student(len(centres) - 1, confidence) * stdev(centres) / math.sqrt(len(centres))
    return Estimate(value, value - half, value + half)


@cache
def student(freedom: int, confidence: float = 0.95) -> float:
    """How many standard errors each side of the mean an interval reaches, by Student's t; `freedom`: its degrees.

    Found by bisection on the probability between -t and t, which for whole degrees of freedom is a finite sum.
    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        high *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """The probability that Student's t lies between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for power in range(3 if odd else 2, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power - 1) / power
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def _rank(count: int, confidence: float) -> int | None:
    """The largest k for which 2 P(X < k) <= 1 - confidence, X being binomial(count, 1/2); None if k would be 0."""
    tail, rank = 0.0, 0
    while rank < count:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - confidence:
            break
        rank += 1
    return rank or None
