"""Speedups are paired by round, and only taken between rows of one run; verdicts only over several processes."""

from __future__ import annotations

import math
import random

import pytest

from autofn import results
from autofn.measure.statistics import estimate
from autofn.measure.verdict import judge
from autofn.records import FAILED, Record
from autofn.speedups import add_speedups


def record(variant="eager", value=2.0, **changes):
    fields = {
        "function": "f", "variant": variant, "workload": "tiny", "dtype": "float32", "device": "cpu",
        "phase": "forward", "metric": "time_s", "unit": "s", "value": value, "source": "bench", "run": "r",
        "machine": "vm", "commit": "c",
    }  # fmt: skip
    return Record(**{**fields, **changes})


def speedups(*records, **options):
    return {row.variant: row for row in add_speedups(results.frame(records), **options).itertuples()}


def test_above_one_is_faster_than_the_baseline():
    rows = speedups(record(), record("cpp", 0.5), record("python", 4.0))
    assert (rows["cpp"].speedup, rows["python"].speedup, rows["eager"].speedup) == (4.0, 0.5, 1.0)
    assert math.isnan(rows["cpp"].speedup_low)
    assert rows["cpp"].verdict == ""


def test_samples_of_one_round_are_a_pair():
    # The machine slows down to a tenth of its speed; in each round cpp takes half of eager's time.
    eager = tuple(1.0 * 1.3**n for n in range(9))
    cpp = tuple(sample / 2 for sample in eager)
    row = speedups(record(samples=eager), record("cpp", 1.0, samples=cpp))["cpp"]
    assert (row.speedup, row.speedup_low, row.speedup_high) == (2.0, 2.0, 2.0)


def test_the_interval_is_that_of_the_paired_ratios():
    draw = random.Random(0)
    eager, cpp = ([draw.uniform(1, 2) for _ in range(20)] for _ in range(2))
    row = speedups(record(samples=tuple(eager)), record("cpp", samples=tuple(cpp)))["cpp"]
    want = estimate([a / b for a, b in zip(eager, cpp, strict=True)])
    assert (row.speedup, row.speedup_low, row.speedup_high) == (want.value, want.low, want.high)
    assert row.verdict == "", "all samples come from one process"


def test_unequal_numbers_of_rounds_are_not_paired():
    row = speedups(record(value=4.0, samples=(4.0,) * 8), record("cpp", 2.0, samples=(2.0,) * 7))["cpp"]
    assert row.speedup == 2.0
    assert math.isnan(row.speedup_low)


APART = [
    "function", "workload", "dtype", "device", "phase", "machine", "commit", "run", "source", "protocol", "cache"
]  # fmt: skip


@pytest.mark.parametrize("field", APART)
def test_rows_that_were_not_measured_together_are_never_divided(field):
    rows = speedups(record(**{field: "other"}), record("cpp", 1.0))
    assert math.isnan(rows["cpp"].speedup)


@pytest.mark.parametrize("field", APART)
def test_each_row_is_divided_by_the_baseline_beside_it(field):
    records = [
        record(),
        record("cpp", 1.0),
        record(value=30.0, **{field: "other"}),
        record("cpp", 3.0, **{field: "other"}),
    ]
    found = add_speedups(results.frame(records))
    assert list(found["speedup"]) == [1.0, 2.0, 1.0, 10.0]


def test_without_a_baseline_or_a_time_there_is_no_speedup():
    failed = record("fused", None, status=FAILED, reason="x")
    assert math.isnan(speedups(record("cpp"), failed)["cpp"].speedup)
    rows = speedups(record(), failed)
    assert math.isnan(rows["fused"].speedup)
    rows = speedups(record(value=None, status=FAILED, reason="x"), record("cpp"))
    assert math.isnan(rows["cpp"].speedup)
    assert math.isnan(rows["eager"].speedup)


def test_only_times_are_divided():
    rows = add_speedups(results.frame([record(), record(metric="saved_bytes"), record(metric="first_call_s")]))
    assert list(rows["metric"]) == ["time_s"]


def test_another_baseline_may_be_asked_for():
    rows = speedups(record(), record("cpp", 1.0), baseline="cpp")
    assert (rows["eager"].speedup, rows["cpp"].speedup) == (0.5, 1.0)


def test_no_rows_are_no_rows():
    assert len(add_speedups(results.frame([]))) == 0


def generations(factor, rounds=5, processes=12, spread=0.002, seed=0):
    """Flat samples of an arm and the detail that splits them: the machine drifts from process to process, all alike."""
    draw, drift = random.Random(seed), random.Random("drift")
    flat = [
        factor * level * math.exp(draw.gauss(0, spread))
        for level in (math.exp(drift.gauss(0, 0.3)) for _ in range(processes))
        for _ in range(rounds)
    ]
    return tuple(flat), [rounds] * processes


def arm(variant, factor, seed, again=None):
    flat, split = generations(factor, seed=seed)
    detail = {"generations": split} | (
        {} if again is None else {"again": list(generations(again, seed=seed + 1000)[0])}
    )
    return record(variant, factor, samples=flat, detail=detail, processes=len(split))


@pytest.mark.parametrize(
    ("factor", "word"), [(0.5, "faster"), (0.95, "faster"), (1.05, "slower"), (2.0, "slower"), (1.0, "same")]
)
def test_over_several_processes_there_is_a_verdict_whatever_the_machine_drifts(factor, word):
    row = speedups(arm("eager", 1.0, 1, again=1.0), arm("cpp", factor, 2))["cpp"]
    assert row.verdict == word
    assert row.speedup == pytest.approx(1 / factor, rel=0.01)
    assert row.speedup_low <= row.speedup <= row.speedup_high
    assert row.speedup_high / row.speedup_low < 1.01


def test_a_difference_that_two_arms_of_the_baseline_show_too_is_no_verdict():
    row = speedups(arm("eager", 1.0, 1, again=1.2), arm("cpp", 1.05, 2))["cpp"]
    assert row.verdict == "cannot tell"
    assert row.floor > 0.05
    assert row.smallest_effect > 0.05


@pytest.mark.parametrize(("rounds", "processes"), [(5, 10), (6, 10), (10, 6)])
def test_processes_that_do_not_correspond_are_not_paired(rounds, processes):
    mine = arm("cpp", 0.5, 2)
    flat, split = generations(1.0, rounds, processes)
    base = record(samples=flat, detail={"generations": split, "again": list(flat)})
    row = speedups(base, mine)["cpp"]
    assert row.verdict == ""
    assert math.isnan(row.speedup_low)


def test_generations_of_one_server_are_one_value_of_the_interval():
    # Each server has a ratio of its own, which its three generations agree on.
    ratios = [1.9, 2.0, 2.1, 1.95, 2.05, 2.0]
    detail = {"generations": [4] * 18, "servers": [3] * 6}
    mine = tuple(1 / own for own in ratios for _ in range(12))
    base = record(samples=(1.0,) * 72, detail={**detail, "again": [1.0] * 72})
    row = speedups(base, record("cpp", 0.5, samples=mine, detail=detail))["cpp"]
    want = judge([[[1.0]]] * 6, [[[1.0]]] * 6, [[[1 / own]] for own in ratios]).speedup
    assert (row.speedup, row.speedup_low, row.speedup_high) == pytest.approx((want.value, want.low, want.high))
    # As if all were independent, as before servers were noted down.
    alone = speedups(
        record(samples=base.samples, detail={"generations": [4] * 18, "again": [1.0] * 72}),
        record("cpp", 0.5, samples=mine, detail={"generations": [4] * 18}),
    )["cpp"]
    assert alone.speedup_low > row.speedup_low


def test_generations_of_other_servers_are_not_paired():
    base = record(samples=(1.0,) * 24, detail={"generations": [4] * 6, "servers": [1] * 6, "again": [1.0] * 24})
    row = speedups(base, record("cpp", samples=(0.5,) * 24, detail={"generations": [4] * 6, "servers": [2] * 3}))["cpp"]
    assert row.verdict == ""
    assert math.isnan(row.speedup_low)
