"""Faster, slower, the same, or cannot tell: what a ratio with its interval says against the noise floor of its run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .statistics import Estimate, Nested, over_servers, paired_logs

# Two arms whose ratio surely lies within 2 % of 1 are the same for whoever chooses between them.
SAME = 0.02


@dataclass(frozen=True)
class Verdict:
    """speedup: baseline time / time.

    floor: half of the log ratio that two arms of the baseline may show in this run; so far off may their mean be.
    word: "faster", "slower", "same" or "cannot tell". smallest_effect: the smallest difference, as a fraction, that
    this run would have called faster or slower.
    """

    word: str
    speedup: Estimate
    floor: float
    smallest_effect: float | None


def judge(baseline: Nested, again: Nested, arm: Nested, confidence: float = 0.95) -> Verdict:
    """The verdict on an arm, from seconds a call: a list a server of a list a generation, paired by round.

    baseline and again are two arms of the same code: the arm is compared with each, the two log ratios are averaged,
    and what differs between the two is the floor. (Averaging the times of the two instead would be biased: noise is
    skewed, so the median of a mean lies above the median; identical arms came out 0.5 % apart.) `faster` and `slower`
    ask that the whole interval lies beyond the floor; `same` that it lies within SAME of 1; all else is `cannot tell`.
    Fewer than FEWEST_SERVERS can tell nothing.
    """
    halves = zip(paired_logs(baseline, arm), paired_logs(again, arm), strict=True)
    both = [[(one + two) / 2 for one, two in zip(*pair, strict=True)] for pair in halves]
    return _judged(over_servers(both, confidence), over_servers(paired_logs(baseline, again), confidence))


def judge_between(baseline: Nested, again: Nested, one: Nested, other: Nested) -> Verdict:
    """The verdict on `other` against `one`. Two arms of the baseline in the same run give the floor."""
    return _judged(over_servers(paired_logs(one, other)), over_servers(paired_logs(baseline, again)))


def _judged(speedup: Estimate, difference: Estimate) -> Verdict:
    """speedup, difference: log ratios, of the compared arms and of two that are the same."""
    if speedup.low is None or speedup.high is None or difference.low is None or difference.high is None:
        return Verdict("cannot tell", speedup.map(math.exp), math.nan, None)
    floor = max(abs(difference.low), abs(difference.high)) / 2
    half_width = (speedup.high - speedup.low) / 2
    return Verdict(
        _word(speedup.low, speedup.high, floor), speedup.map(math.exp), floor, math.expm1(floor + half_width)
    )


def _word(low: float, high: float, floor: float) -> str:
    if low > floor:
        return "faster"
    if high < -floor:
        return "slower"
    if -math.log1p(SAME) <= low and high <= math.log1p(SAME):
        return "same"
    return "cannot tell"
