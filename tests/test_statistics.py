"""Intervals of the median: their ranks are the binomial's, their coverage is what they claim."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from autofn.measure.statistics import centre, estimate, over_processes, ratio, ratio_over_processes


def miss(count, rank):
    """The exact probability that the true median lies outside the rank-th smallest and the rank-th largest value."""
    return 2 * Fraction(sum(math.comb(count, k) for k in range(rank)), 2**count)


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 8, 9, 12, 20, 51, 100, 200, 400])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_interval_is_the_narrowest_whose_exact_coverage_suffices(count, confidence):
    values = list(range(count))
    random.Random(count).shuffle(values)
    found = estimate(values, confidence)
    allowed = 1 - Fraction(confidence)
    ranks = [rank for rank in range(1, count // 2 + 1) if miss(count, rank) <= allowed]
    if not ranks:
        assert (found.low, found.high) == (None, None)
    else:
        assert (found.low, found.high) == (max(ranks) - 1, count - max(ranks))


def test_six_values_are_the_fewest_for_95_percent_and_give_their_extremes():
    assert estimate([1, 2, 3, 4, 5]).low is None
    found = estimate([6, 1, 5, 2, 4, 3])
    assert (found.value, found.low, found.high) == (3.5, 1, 6)


def test_no_values_are_an_error():
    with pytest.raises(ValueError, match="at least one value"):
        estimate([])


@pytest.mark.parametrize("count", [7, 20, 60])
@pytest.mark.parametrize("draw", ["gauss", "lognormal", "two humps"])
def test_the_interval_covers_the_true_median_as_often_as_it_claims(count, draw):
    generator = random.Random(f"{draw} {count}")
    draws = {
        "gauss": lambda: generator.gauss(0, 1),
        "lognormal": lambda: generator.lognormvariate(0, 1) - 1,
        "two humps": lambda: generator.gauss(generator.choice([-3, 3]), 1),
    }
    trials = 4000
    covered = sum(
        found.low <= 0 <= found.high
        for found in (estimate([draws[draw]() for _ in range(count)]) for _ in range(trials))
    )
    rank = max(rank for rank in range(1, count // 2 + 1) if miss(count, rank) <= Fraction(1, 20))
    exact = 1 - float(miss(count, rank))
    assert exact >= 0.95
    # Four standard deviations of a share of 4,000 trials.
    assert abs(covered / trials - exact) < 4 * math.sqrt(exact * (1 - exact) / trials)


def test_an_outlier_moves_neither_the_median_nor_the_interval_of_many():
    values = [1 + n / 1000 for n in range(40)]
    assert estimate([*values[:-1], 1e9]) == estimate(values)


def test_a_ratio_is_of_pairs_and_above_one_where_the_other_is_faster():
    # Both double from round to round, as on a machine that slows down: the ratio is 2 in every round.
    baseline = [2.0 * 2**n for n in range(8)]
    other = [1.0 * 2**n for n in range(8)]
    assert ratio(baseline, other) == estimate([2.0] * 8)
    assert ratio(other, baseline).value == 0.5


def test_a_ratio_of_unequal_rounds_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize("count", [4, 5, 6, 7, 9, 12])
def test_the_interval_of_the_centre_is_that_of_the_signed_rank_test_by_enumeration(count):
    # Powers of 4 apart, so that all pairwise means differ.
    values = [4.0**n for n in range(count)]
    means = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    sums = [sum(r + 1 for r in range(count) if subset >> r & 1) for subset in range(2**count)]
    cuts = [c for c in range(1, len(means) // 2 + 1) if 2 * sum(t < c for t in sums) <= 0.05 * 2**count]
    found = centre(values)
    if not cuts:
        assert (found.low, found.high) == (None, None)
    else:
        assert (found.low, found.high) == (means[max(cuts) - 1], means[-max(cuts)])
    assert (found.low is None) == (count < 6)


@pytest.mark.parametrize("count", [6, 12, 20])
def test_the_interval_of_the_centre_covers_what_it_claims(count):
    generator, trials = random.Random(count), 2000
    found = [centre([generator.gauss(0, 1) for _ in range(count)]) for _ in range(trials)]
    covered = sum(one.low <= 0 <= one.high for one in found) / trials
    # Four standard deviations below 95 %; above it only by what whole ranks allow.
    assert 0.95 - 4 * math.sqrt(0.95 * 0.05 / trials) < covered < 0.985


def test_over_processes_a_process_counts_once_however_many_samples_it_took():
    few = [[1.0, 1.0, 50.0]] * 6
    many = [[1.0] * 500] * 6
    assert over_processes(few).value == over_processes(many).value == pytest.approx(1.0)


def test_a_ratio_over_processes_is_paired_inside_each_process():
    # Every process runs at a speed of its own, and slows down while it runs: cpp always takes half.
    eager = [[speed * 1.5**n for n in range(5)] for speed in (1.0, 3.0, 0.2, 7.0, 1.1, 0.5)]
    cpp = [[sample / 2 for sample in samples] for samples in eager]
    found = ratio_over_processes(eager, cpp)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
