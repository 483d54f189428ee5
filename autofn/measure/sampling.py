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
WARM_CALLS, WARM_S = 20, 0.1

Sample = Callable[[int], float]
"""`sample(number)`: seconds that `number` calls took."""


@dataclass(frozen=True)
class Samples:
    """Seconds a call, one value a round, and how many calls each sample held."""

    times_s: tuple[float, ...]
    number: int


def warm_up(sample: Sample) -> float:
    """Calls until caches, pages and lazy imports have settled; the shortest call seen, in seconds.

    At least 3 calls, then until 20 calls are done or 0.1 s has passed: malloc keeps a large output's pages only after
    about 7 calls, but a case of a second must not take 20 s to warm.
    """
    shortest, spent = float("inf"), 0.0
    for call in range(WARM_CALLS):
        if call >= 3 and spent > WARM_S:
            break
        took = sample(1)
        shortest, spent = min(shortest, took), spent + took
    return shortest


def calls_per_sample(call_s: float) -> int:
    """How many calls make a sample of SAMPLE_S, at most MOST_CALLS."""
    return min(MOST_CALLS, int(SAMPLE_S / call_s) + 1) if call_s > 0 else MOST_CALLS


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
