"""The trial of `autofn compare` counts what was planted as found, and all else as false."""

from __future__ import annotations

import pytest

from autofn.comparing.builds import Side
from autofn.comparing.plan import Pair
from autofn.comparing.run import AGAIN, BASE, HEAD, Comparison
from autofn.measure.processes import Build
from autofn.measure.rows import Arm, Group
from trials import commits

SIDE = Side("base", "", Build(), None)
COMPARISON = Comparison(SIDE, SIDE, commits.PHASES, 300.0)
FUNCTIONS = (commits.FUNCTION, "bee")
PAIRS = [Pair(Group(name, "small", "float32", "cpu"), (Arm(commits.VARIANT),)) for name in FUNCTIONS]


def run(slower):
    """A run of six interpreters; the forward of the Functions in `slower` takes so many times as long at the head."""

    def server(function, number):
        second = 1 + number / 10_000
        return {
            f"{side} {commits.VARIANT}/{phase}": [
                [second * (slower.get(function, 1) if (side, phase) == (HEAD, commits.PHASE) else 1)] * 4
            ] * 2
            for side in (BASE, AGAIN, HEAD)
            for phase in commits.PHASES
        }  # fmt: skip

    first = {str(pair.group): [server(pair.group.function, number) for number in range(6)] for pair in PAIRS}
    second = {group: servers for group, servers in first.items() if group.split()[0] in slower}
    reported = [f"{function} {commits.PHASE} slower" for function in slower]
    return {"seconds": 300.0, "reported": reported, "first": first, "second": second}


@pytest.mark.parametrize(
    ("kind", "slower", "found", "false"),
    [
        (commits.SAME, {}, 0, 0),
        (commits.SAME, {commits.FUNCTION: 1.05}, 0, 4),
        (commits.PLANTED, {commits.FUNCTION: 1.05}, 4, 0),
        (commits.PLANTED, {commits.FUNCTION: 1.05, "bee": 1.2}, 4, 4),
    ],
)
def test_what_is_reported_is_counted(kind, slower, found, false):
    figures = commits._figures(kind, [run(slower)] * 4, COMPARISON, PAIRS, replays=4)
    counts = {"comparisons": 4, "found": found, "false": false}
    assert figures["real"] == figures["replayed"] == counts
    assert figures["slower_by"] == pytest.approx(slower.get(commits.FUNCTION, 1) - 1, abs=1e-4)
    # 5 % is below asv's factor, 20 % is not.
    assert figures["asv continuous"]["false"] == (4 if "bee" in slower else 0)


def test_a_second_look_is_replayed_from_second_looks():
    """Where the second looks did not show what the first ones did, nothing is reported."""
    runs = [{**run({commits.FUNCTION: 1.05}), "second": run({})["first"]}] * 4
    figures = commits._figures(commits.PLANTED, runs, COMPARISON, PAIRS, replays=4)
    assert figures["replayed"] == {"comparisons": 4, "found": 0, "false": 0}


def test_the_kernel_that_is_made_slower_is_there():
    assert commits.ONCE in (commits.ROOT / commits.KERNEL).read_text()
