"""Sampling on a clock that passes only when a sample lets it: nothing here takes time."""

from __future__ import annotations

from collections import Counter

import pytest
from support import Clock

from autofn.measure.sampling import (
    FEWEST_ROUNDS,
    MOST_CALLS,
    MOST_ROUNDS,
    SAMPLE_S,
    WARM_CALLS,
    WARM_S,
    calls_before,
    calls_per_sample,
    interleave,
    warm_up,
)


class Arm:
    """A call takes `call_s`, the first ones `first_s`; what was asked for is noted in `log`."""

    def __init__(self, clock, call_s, log=None, name="", first_s=()):
        self.clock, self.call_s, self.name, self.first = clock, call_s, name, list(first_s)
        self.log = [] if log is None else log

    def __call__(self, number):
        begin = self.clock()
        for _ in range(number):
            self.clock.advance(self.first.pop(0) if self.first else self.call_s)
        self.log.append((self.name, number))
        return self.clock() - begin


@pytest.fixture
def clock():
    return Clock()


def test_a_fast_call_is_warmed_twenty_times_one_by_one(clock):
    arm = Arm(clock, 1e-6)
    assert warm_up(arm) == pytest.approx(1e-6)
    assert arm.log == [("", 1)] * WARM_CALLS


def test_a_slow_call_is_warmed_twice(clock):
    arm = Arm(clock, 10.0)
    assert warm_up(arm) == pytest.approx(10.0)
    assert len(arm.log) == 2


def test_a_middling_call_is_warmed_until_the_time_is_over(clock):
    arm = Arm(clock, WARM_S / 7.5)
    warm_up(arm)
    assert len(arm.log) == 1 + 8


def test_the_first_slow_calls_do_not_count_as_the_length_of_a_call(clock):
    arm = Arm(clock, 1e-5, first_s=[1.0, 0.001])
    assert warm_up(arm) == pytest.approx(1e-5)
    assert len(arm.log) == WARM_CALLS


@pytest.mark.parametrize(
    ("call_s", "number", "before"),
    [(1e-5, 101, 3 + 12), (7e-4, 2, 3), (4.9e-3, 1, 3), (5e-3, 1, 0), (1.0, 1, 0)],
)
def test_calls_go_before_a_sample_unless_they_are_long(call_s, number, before):
    assert calls_before(call_s, number) == before


@pytest.mark.parametrize("call_s", [1e-7, 3.3e-6, 1e-5, SAMPLE_S / 2, SAMPLE_S])
def test_a_sample_lasts_as_long_as_promised_with_as_few_calls_as_possible(call_s):
    number = calls_per_sample(call_s)
    assert number == MOST_CALLS or number * call_s >= SAMPLE_S
    assert (number - 2) * call_s < SAMPLE_S
    assert 1 <= number <= MOST_CALLS


def test_a_long_call_is_a_sample_by_itself():
    assert calls_per_sample(1.5 * SAMPLE_S) == calls_per_sample(100.0) == 1


@pytest.mark.parametrize("call_s", [0.0, 1e-30])
def test_a_call_too_short_for_the_clock_makes_no_endless_sample(call_s):
    assert calls_per_sample(call_s) == MOST_CALLS


def rounds_of(log, names):
    return [[name for name, _ in log[i : i + len(names)]] for i in range(0, len(log), len(names))]


def test_in_each_round_every_arm_takes_one_sample_in_an_order_that_changes(clock):
    log, names = [], ["a", "b", "c", "d"]
    arms = {name: (Arm(clock, 1e-4, log, name), 3) for name in names}
    found = interleave(arms, budget_s=1.0, rounds=60)
    rounds = rounds_of(log, names)
    assert len(rounds) == 60
    assert all(sorted(order) == names for order in rounds)
    assert {number for _, number in log} == {3}
    # Each of four arms comes first in a quarter of 60 rounds: fewer than 4 or more than 30 has odds below 1e-4.
    first = Counter(order[0] for order in rounds)
    assert all(4 <= first[name] <= 30 for name in names)
    assert len({tuple(order) for order in rounds}) > 12
    assert all(len(found[name].times_s) == 60 for name in names)


def test_the_order_depends_on_the_seed_alone(clock):
    logs = []
    for seed in (1, 1, 2):
        logs.append([])
        interleave({n: (Arm(clock, 1e-4, logs[-1], n), 1) for n in "abc"}, budget_s=0, rounds=20, seed=seed)
    assert logs[0] == logs[1] != logs[2]


def test_a_time_is_that_of_one_call_in_the_place_of_its_round(clock):
    ramp = [0.1 * n for n in range(1, 21)]
    found = interleave({"ramp": (Arm(clock, 9.0, first_s=ramp), 2)}, budget_s=99, rounds=10)["ramp"]
    assert found.number == 2
    assert found.times_s == pytest.approx([(a + b) / 2 for a, b in zip(ramp[::2], ramp[1::2], strict=True)])


def test_drift_of_the_machine_hits_all_arms_alike(clock):
    class Slowing(Arm):
        def __call__(self, number):
            slow = 1 + self.clock.now / 10
            self.clock.advance(self.call_s * slow * number)
            return self.call_s * slow * number

    found = interleave({"one": (Slowing(clock, 1e-3), 10), "two": (Slowing(clock, 2e-3), 10)}, 20.0)
    ratios = [b / a for a, b in zip(found["one"].times_s, found["two"].times_s, strict=True)]
    assert found["one"].times_s[-1] > 1.5 * found["one"].times_s[0]
    assert all(1.9 < ratio < 2.1 for ratio in ratios)


def test_it_stops_when_the_budget_of_all_arms_is_spent(clock):
    arms = {"slow": (Arm(clock, 0.375), 1), "fast": (Arm(clock, 0.125), 1)}
    found = interleave(arms, budget_s=4.0)
    # 0.5 s a round, 8 s in all.
    assert len(found["slow"].times_s) == len(found["fast"].times_s) == 16


def test_however_short_the_budget_there_are_rounds_enough_for_an_interval(clock):
    found = interleave({"a": (Arm(clock, 5.0), 1)}, budget_s=0.001)
    assert len(found["a"].times_s) == FEWEST_ROUNDS


def test_however_long_the_budget_there_is_an_end(clock):
    found = interleave({"a": (Arm(clock, 1e-6), 1)}, budget_s=1e9)
    assert len(found["a"].times_s) == MOST_ROUNDS


def test_no_arms_are_no_samples():
    assert interleave({}, budget_s=1.0) == {}
