"""What looks different is told only where a second look agrees; what was looked at is not looked at again."""

from __future__ import annotations

import pytest

from autofn.comparing import run
from autofn.comparing.builds import Side
from autofn.comparing.changes import Change
from autofn.comparing.plan import Pair
from autofn.measure.lockstep import Outcome
from autofn.measure.processes import Build
from autofn.measure.rows import MEMORY_METRICS, Arm, Group

SIDE = Side("HEAD", "", Build(), None)
COMPARISON = run.Comparison(SIDE, SIDE, ("forward",), 100.0)
PAIRS = [Pair(Group(name, "small", "float32", "cpu"), (Arm("python"), Arm("cpp"))) for name in ("ant", "bee")]
MEMORY = {metric: {"forward": 8, "backward": 8} if metric == "peak_bytes" else 8 for _, metric in MEMORY_METRICS}


def servers(seconds, spread=0.001):
    """Six servers of two generations of four samples; the servers differ by `spread`."""
    return [[[seconds * (1 + spread * (server - 2.5))] * 4] * 2 for server in range(6)]


def outcome(pair, slowdown, **changes):
    """Every arm takes a second, the head's `slowdown` times as long."""
    found = Outcome()
    for arm in pair.arms:
        for side in (run.BASE, run.AGAIN, run.HEAD):
            name = f"{side} {arm.variant}"
            factor = slowdown.get(arm.variant, 1.0) if side == run.HEAD else 1.0
            found.times[name, "forward", "wall"] = servers(factor)
            found.memory[name] = MEMORY
            found.prepared[name] = {"compilation": {"graphs": 1}}
    for field, values in changes.items():
        getattr(found, field).update(values)
    return found


@pytest.fixture
def measured(monkeypatch):
    """`measured(first, second)`: what each look gives; and the pairs that were measured, with their seconds."""
    calls = []

    def plan(*looks):
        def measure(processes, comparison, pair, effort):
            calls.append((str(pair.group), [arm.variant for arm in pair.arms], effort.budget_s))
            return looks[0 if len(calls) <= len(PAIRS) else 1](pair)

        monkeypatch.setattr(run, "measure", measure)
        return calls

    return plan


def times(changes):
    return {(c.function, c.variant): c.verdict for c in changes if c.metric == "time_s"}


def compared(looks=None, pairs=PAIRS):
    return run.compare_pairs(COMPARISON, pairs, looks or run.Looks(None))


def test_nothing_different_needs_one_look_that_shares_its_part_of_the_budget(measured):
    calls = measured(lambda pair: outcome(pair, {}))
    found = compared()
    assert set(times(found).values()) == {"same"}
    assert [seconds for *_, seconds in calls] == [30.0, 30.0]


def test_a_slowdown_that_holds_twice_is_told_by_the_second_look(measured):
    slow = {"ant": [{"cpp": 1.2}, {"cpp": 1.1}], "bee": [{}, {}]}
    calls = measured(*(lambda pair, look=look: outcome(pair, slow[pair.group.function][look]) for look in (0, 1)))
    found = compared()
    assert times(found) == {
        ("ant", "python"): "same", ("ant", "cpp"): "slower", ("bee", "python"): "same", ("bee", "cpp"): "same",
    }  # fmt: skip
    assert calls[2] == ("ant small float32 cpu", ["cpp"], 40.0), "the rest of the budget is for what is suspected"
    (told,) = [change for change in found if change.verdict == "slower"]
    assert told.ratio == pytest.approx(1 / 1.1)


@pytest.mark.parametrize("second", [{"cpp": 0.9}, {"cpp": 1.0}])
def test_a_difference_that_does_not_hold_is_not_told(measured, second):
    measured(lambda pair: outcome(pair, {"cpp": 1.2}), lambda pair: outcome(pair, second))
    found = compared(pairs=PAIRS)
    cpp = [change for change in found if change.variant == "cpp" and change.metric == "time_s"]
    assert {change.verdict for change in cpp} == ({"same"} if second == {"cpp": 1.0} else {"cannot tell"})
    if second != {"cpp": 1.0}:
        assert {change.reason for change in cpp} == {"seemed 20.0% slower at first, which did not hold"}


def test_the_more_suspects_the_more_sure_the_second_look_must_be(measured):
    """An interval that excludes no difference at 95 % does not at the level of four suspects."""

    def look(pair, spread):
        found = outcome(pair, {})
        for arm in pair.arms:
            found.times[f"head {arm.variant}", "forward", "wall"] = servers(1.02, spread)
        return found

    measured(lambda pair: look(pair, 0.009), lambda pair: look(pair, 0.009))
    assert set(times(compared()).values()) == {"cannot tell"}


def test_bytes_are_compared_to_the_byte(measured):
    more = {"memory": {"head cpp": {**MEMORY, "held_bytes": 9, "peak_bytes": {"forward": 7, "backward": 8}}}}
    measured(lambda pair: outcome(pair, {}, **more))
    found = {(c.metric, c.phase): (c.verdict, c.base, c.head) for c in compared(pairs=PAIRS[:1]) if c.variant == "cpp"}
    assert found["held_bytes", "forward"] == ("more", 8, 9)
    assert found["peak_bytes", "forward"] == ("less", 8, 7)
    assert found["peak_bytes", "backward"] == ("same", 8, 8)
    assert len(found) == 1 + len(MEMORY_METRICS)


@pytest.mark.parametrize(
    ("side", "field", "verdict"),
    [
        ("head", "failed", "broken"),
        ("head", "unavailable", "broken"),
        ("base", "failed", "failed"),
        ("base", "unavailable", "n/a"),
        ("base again", "failed", "failed"),
    ],
)
def test_an_arm_without_a_value_says_why_and_is_broken_where_only_the_head_lacks_it(measured, side, field, verdict):
    measured(lambda pair: outcome(pair, {}, **{field: {f"{side} cpp": "it fell"}}))
    cpp = [change for change in compared(pairs=PAIRS[:1]) if change.variant == "cpp"]
    assert [(change.verdict, change.reason) for change in cpp] == [(verdict, "it fell")]


def test_a_graph_that_was_not_compiled_has_no_time(measured):
    pair = Pair(PAIRS[0].group, (Arm("fused", compiled=True),))
    nothing = {"prepared": {"head fused": {"compilation": {"graphs": 0}}}}
    measured(lambda pair: outcome(pair, {}, **nothing))
    assert {change.verdict for change in compared(pairs=[pair])} == {"broken"}


def test_an_interrupted_comparison_goes_on_and_a_line_cut_short_is_no_harm(measured, tmp_path):
    path = tmp_path / "looks.jsonl"
    calls = measured(lambda pair: outcome(pair, {}))
    compared(run.Looks(path), PAIRS[:1])
    with path.open("a") as file:
        file.write('{"look": "first", "gro')
    found = compared(run.Looks(path))
    assert [group for group, *_ in calls] == ["ant small float32 cpu", "bee small float32 cpu"]
    assert set(times(found)) == {(name, variant) for name in ("ant", "bee") for variant in ("python", "cpp")}
    assert found[0] == run.Looks(path).read("first", PAIRS[0])[0]
    assert isinstance(found[0], Change)


def test_what_one_side_lacks_is_a_row_with_its_reason(measured):
    measured(lambda pair: outcome(pair, {}))
    pair = Pair(PAIRS[0].group, (Arm("python"),), (("cpp", "the base has no variant cpp"),))
    (row,) = [change for change in compared(pairs=[pair]) if change.variant == "cpp"]
    assert (row.verdict, row.reason) == ("n/a", "the base has no variant cpp")
