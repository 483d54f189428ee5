"""The harness on operations whose truth is known. Real processes and a real clock, with wide margins."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import pytest

from autofn import results
from autofn.measure import isolated
from autofn.measure.lockstep import Effort
from autofn.measure.processes import Build, Processes
from autofn.measure.rows import Arm, Group, Rows
from autofn.speedups import add_speedups

BUILD = Build(package="planted", environment=(("PYTHONPATH", str(Path(__file__).parent)),))
ARMS = (Arm("eager"), Arm("python"))


pytestmark = pytest.mark.measured


@pytest.fixture
def measured(request):
    """The frame of the planted Function, by workload; measured anew where a test is run again."""
    return frame(getattr(request.node, "execution_count", 1))


@cache
def frame(attempt):
    with Processes() as processes:
        rows = [
            record
            for workload in ("tiny", "small")
            for record in isolated.measure(
                processes, BUILD, Rows(Group("spin", workload, "float32", "cpu"), ("forward",)), ARMS, Effort(0.5)
            )
        ]
    return results.frame(rows)


def test_a_spin_of_200_us_takes_200_us(measured):
    times = measured[(measured["metric"] == "time_s") & (measured["variant"] == "eager")]
    assert len(times) == 2
    for row in times.itertuples():
        assert 200e-6 <= row.value < 230e-6
        assert row.low <= row.value <= row.high
        assert min(row.samples) >= 200e-6


def test_a_twin_planted_30_percent_slower_is_called_slower_by_that_much(measured):
    times = add_speedups(measured)
    slower = times[times["variant"] == "python"]
    assert list(slower["verdict"]) == ["slower", "slower"]
    for row in slower.itertuples():
        assert row.speedup == pytest.approx(200 / 260, rel=0.05)
        assert row.smallest_effect < 0.3


def test_two_arms_of_the_same_code_differ_by_little_and_both_are_kept(measured):
    for row in measured[(measured["metric"] == "time_s") & (measured["variant"] == "eager")].itertuples():
        again = row.detail["again"]
        assert len(again) == len(row.samples) == sum(row.detail["generations"])
        assert median(again) == pytest.approx(median(row.samples), rel=0.2)


def test_each_generation_is_a_process_of_one_of_six_servers(measured):
    for row in measured[measured["metric"] == "time_s"].itertuples():
        assert len(row.detail["servers"]) == 6
        assert row.processes == sum(row.detail["servers"]) == len(row.detail["generations"]) >= 6


def test_denormal_inputs_are_said(measured):
    times = measured[measured["metric"] == "time_s"].set_index(["workload", "variant"])["detail"]
    assert "denormal_inputs" not in times["tiny", "eager"]
    assert times["small", "eager"]["denormal_inputs"] == [0]


def test_the_bytes_of_an_arm_come_from_a_process_of_its_own(measured):
    small = measured[measured["workload"] == "small"].set_index(["variant", "metric", "phase"])["value"]
    for variant in ("eager", "python"):
        # PyTorch saves the number 1.0 of the product as a tensor of 8 bytes, which is no hidden state.
        assert small[variant, "held_bytes", "forward"] == 8
        assert small[variant, "hidden_bytes", "forward"] == 0
        assert small[variant, "leaked_bytes", "forward_backward"] == 0
