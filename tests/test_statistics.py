"""Intervals of the median: their ranks are the binomial's, their coverage is what they claim."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest

from autofn.measure.statistics import (
    FEWEST_SERVERS,
    centre,
    estimate,
    over_processes,
    over_servers,
    ratio,
    ratio_over_processes,
    student,
)


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


def test_the_centre_is_the_median_of_all_pairwise_means():
    assert centre([1.0, 2.0, 6.0]) == 2.75
    assert centre([7.0]) == 7.0
    with pytest.raises(ValueError, match="at least one value"):
        centre([])


def test_an_outlier_hardly_moves_the_centre():
    assert centre([1.0, 1.01, 1.02, 1.03, 9.0]) < 1.1


# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm
TABLE = {(1, 0.95): 12.706, (2, 0.95): 4.303, (3, 0.95): 3.182, (5, 0.95): 2.571, (7, 0.95): 2.365, (30, 0.95): 2.042,
         (4, 0.99): 4.604, (5, 0.99): 4.032, (1, 0.9): 6.314}  # fmt: skip


@pytest.mark.parametrize(("freedom", "confidence"), TABLE)
def test_the_quantiles_of_student_are_those_of_the_tables(freedom, confidence):
    assert student(freedom, confidence) == pytest.approx(TABLE[freedom, confidence], abs=6e-4)


def nested(generator, servers, generations, server_sd, draw):
    """Logs of times whose truth is 0: servers differ by `server_sd`, generations of one by what `draw` gives."""
    found = []
    for _ in range(servers):
        own = generator.gauss(0, server_sd)
        found.append([own + draw(generator) for _ in range(generations)])
    return found


DRAWS = {
    "normal": lambda generator: generator.gauss(0, 1),
    "two humps": lambda generator: generator.choice([-1, 1]) + generator.gauss(0, 0.3),
    "outliers": lambda generator: generator.gauss(0, 6 if generator.random() < 0.1 else 1),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("server_sd", [0, 0.5, 1, 2])
@pytest.mark.parametrize(("servers", "generations"), [(4, 2), (6, 1), (6, 3), (8, 4)])
def test_intervals_of_nested_data_cover_the_truth_whatever_the_servers_differ_by(servers, generations, server_sd, draw):
    generator, trials = random.Random(f"{servers} {generations} {server_sd} {draw}"), 1000
    found = [over_servers(nested(generator, servers, generations, server_sd, DRAWS[draw])) for _ in range(trials)]
    covered = sum(one.low <= 0 <= one.high for one in found) / trials
    # Four standard deviations of a share of 1,000 trials.
    assert covered > 0.95 - 4 * math.sqrt(0.95 * 0.05 / trials)
    if draw == "normal":
        assert covered < 0.95 + 4 * math.sqrt(0.95 * 0.05 / trials)


def test_intervals_that_took_generations_for_independent_would_not():
    generator, trials = random.Random(0), 1000
    data = [nested(generator, 6, 3, 2, DRAWS["normal"]) for _ in range(trials)]
    flat = [over_servers([[value] for server in one for value in server]) for one in data]
    assert sum(one.low <= 0 <= one.high for one in flat) / trials < 0.85


def test_of_few_servers_there_is_a_value_and_no_interval():
    found = over_servers([[1.0, 3.0], [4.0], [3.0]])
    assert (found.value, found.low, found.high) == (3.0, None, None)
    assert over_servers([[1.0]] * FEWEST_SERVERS).low == 1.0
    with pytest.raises(ValueError, match="at least one server"):
        over_servers([])


def test_a_process_counts_once_however_many_samples_it_took():
    few = [[[1.0, 1.0, 50.0]]] * 6
    many = [[[1.0] * 500]] * 6
    assert over_processes(few).value == over_processes(many).value == pytest.approx(1.0)


def test_a_server_counts_once_however_many_generations_it_gave():
    slow, fast = [[4.0] * 3], [[1.0] * 3]
    assert over_processes([slow, fast]).value == over_processes([slow * 7, fast]).value == pytest.approx(2.0)


def test_a_ratio_over_processes_is_paired_inside_each_process():
    # Every process runs at a speed of its own, and slows down while it runs: cpp always takes half.
    eager = [[[speed * 1.5**n for n in range(5)] for speed in (own, own * 2)] for own in (1.0, 3.0, 0.2, 7.0, 1.1, 0.5)]
    cpp = [[[sample / 2 for sample in samples] for samples in server] for server in eager]
    found = ratio_over_processes(eager, cpp)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
