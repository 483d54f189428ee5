"""Taking samples of several arms in turn, so that drift of the machine hits all alike. Knows nothing of torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# A sample lasts about this long: against it the clock's 50 ns are nothing, and so is what the caches lack after the
# arm before; yet ten arms take theirs in the time that the machine stays the same.
SAMPLE_S = 1e-3
MOST_CALLS = 10_000
# An interval of the median needs six samples; one more is the margin for an outlier.
FEWEST_ROUNDS = 7
MOST_ROUNDS = 200
FEWEST_WARM, WARM_CALLS, WARM_S = 2, 20, 0.1
# Refilling a 2 MB cache takes about 0.1 ms: below 2 % of such a call.
LONG_S = 5e-3
# After another arm, and at new places, the first calls take 1.03 to 1.28 of the time of later ones, the second ones up
# to 1.07, the fourth 1.01. With one call before them, samples of 7 calls and of 8, with two, differed by a percent;
# those of a call of 1 to 4 ms by 2 (26 cases of large workloads).
CALLS_BEFORE = 3

Sample = Callable[[int], float]
"""`sample(number)`: seconds that `number` calls took."""


@dataclass(frozen=True)
class Samples:
    """Seconds a call, one value a round, and how many calls each sample held."""

    times_s: tuple[float, ...]
    number: int


def warm_up(sample: Sample, enough_s: float = WARM_S) -> float:
    """Calls until caches, pages and lazy imports have settled; the shortest call seen, in seconds.

    At least 2 calls; then until 20 calls are done, or all but the first, which touches new pages and imports, have
    taken `enough_s`: a case of a second must not take 20 s to warm.
    """
    shortest, spent = float("inf"), 0.0
    for call in range(WARM_CALLS):
        if call >= FEWEST_WARM and spent > enough_s:
            break
        took = sample(1)
        shortest, spent = min(shortest, took), spent + (took if call else 0.0)
    return shortest


def calls_per_sample(call_s: float) -> int:
    """How many calls make a sample of SAMPLE_S, at most MOST_CALLS."""
    return min(MOST_CALLS, int(SAMPLE_S / call_s) + 1) if call_s > 0 else MOST_CALLS


def calls_before(call_s: float, number: int) -> int:
    """How many calls go before a sample of `number` calls, each of which takes about `call_s` seconds.

    A call of LONG_S or more fills the caches itself in a small part of its time, and goes alone.
    """
    return 0 if call_s >= LONG_S else CALLS_BEFORE + number // 8


def interleave(
    arms: Mapping[str, tuple[Sample, int]], budget_s: float, *, seed: int = 0, rounds: int = MOST_ROUNDS
) -> dict[str, Samples]:
    """Samples of every arm: in each round all take one, in random order; so round i of two arms is a pair.

    arms: name -> (sample, number of calls a sample). Stops when `budget_s` an arm is spent or after `rounds` rounds,
    but not before FEWEST_ROUNDS.
    """
    order = random.Random(seed)
    names = list(arms)
    times: dict[str, list[float]] = {name: [] for name in names}
    spent = 0.0
    for done in range(rounds):
        if done >= FEWEST_ROUNDS and spent >= budget_s * len(names):
            break
        for name in order.sample(names, len(names)):
            sample, number = arms[name]
            took = sample(number)
            spent += took
            times[name].append(took / number)
    return {name: Samples(tuple(times[name]), arms[name][1]) for name in names}
