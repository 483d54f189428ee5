"""How others decide whether two measurements differ, by their own functions, from samples of processes.

A side is a list of processes, each a list of seconds a call, taken one side after the other: none of them interleaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

Side = Sequence[Sequence[float]]


def timer(base: Side, other: Side) -> str:
    """torch.utils.benchmark: one process a side; different where the interquartile ranges do not overlap."""
    from torch.utils.benchmark.utils.common import Measurement, TaskSpec

    spec = TaskSpec(stmt="f(x)", setup="", global_setup="")
    one, two = (Measurement(1, list(side[0]), spec) for side in (base, other))
    if one._p75 < two._p25:
        return "slower"
    return "faster" if two._p75 < one._p25 else "no difference"


def pyperf(base: Side, other: Side) -> str:
    """pyperf compare_to: 20 processes a side, 3 values each; Student's t-test of all values at 95 %."""
    from pyperf._utils import is_significant

    one, two = ([value for process in side for value in process[:3]] for side in (base, other))
    if not is_significant(one, two)[0]:
        return "no difference"
    return "slower" if mean(two) > mean(one) else "faster"


def asv(base: Side, other: Side) -> str:
    """asv continuous: 2 processes (rounds) a side, 10 samples each; factor 1.1 and asv's own U test."""
    from asv.commands.compare import _is_result_better
    from asv_runner.statistics import compute_stats

    one, two = ([value for process in side for value in process] for side in (base, other))
    stats = [(compute_stats(samples, 1)[1], samples) for samples in (one, two)]
    if _is_result_better(median(two), median(one), stats[1], stats[0], 1.1):
        return "faster"
    return "slower" if _is_result_better(median(one), median(two), stats[0], stats[1], 1.1) else "no difference"


# name -> (how it decides, processes a side)
RIVALS: dict[str, tuple[Callable[[Side, Side], str], int]] = {
    "torch.utils.benchmark": (timer, 1),
    "pyperf compare_to": (pyperf, 20),
    "asv continuous": (asv, 2),
}
