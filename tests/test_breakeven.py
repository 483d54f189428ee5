"""Where the ratio of two variants crosses 1 over the sizes of a Function's workloads, and where it does not."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from sample_results import record
from support import DECLARATION, plant, unplant, write_function

from autofn import registry, results
from autofn.breakeven import break_even, elements, sizes
from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Table
from autofn.reporting.sections import breakeven
from autofn.speedups import add_speedups

SIZES = {"tiny": 10, "small": 1000, "large": 100_000}


@pytest.fixture(autouse=True)
def planted(tmp_path):
    """`square` over 10, 1,000 and 100,000 numbers: two decades apart."""
    declaration = DECLARATION
    for workload, (old, new) in {"tiny": (6, 10), "small": (64, 1000), "large": (128, 100_000)}.items():
        declaration = declaration.replace(f'"{workload}": {{"n": {old}}}', f'"{workload}": {{"n": {new}}}')
    write_function(tmp_path, "square", declaration)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path)
        yield
    unplant()
    sizes.cache_clear()


def times(**variants):
    """Records from seconds at the three sizes; None where there is none."""
    return [
        record(function="square", variant=variant, workload=workload, value=value, version="1")
        for variant, values in variants.items()
        for workload, value in zip(SIZES, values, strict=True)
        if value
    ]


def found(*records, **variants):
    return break_even(add_speedups(results.frame([*records, *times(**variants)])))


def pair(rows: pd.DataFrame, first, second):
    return list(rows[(rows["first"] == first) & (rows["second"] == second)].itertuples())


def one(rows, first, second):
    (row,) = pair(rows, first, second)
    return row


def test_the_crossing_is_interpolated_on_log_scales():
    # cpp takes 1/4 of eager's time at 10 and 4 times as long at 1,000: equal half way, at 100.
    row = one(found(eager=(4, 1, 1), cpp=(1, 4, 4)), "eager", "cpp")
    assert (row.result, row.faster_below, row.faster_above) == ("crosses", "cpp", "eager")
    assert row.elements == pytest.approx(100)
    assert (row.after, row.before, row.smallest, row.largest) == (10, 1000, 10, 100_000)


def test_it_lies_nearer_to_the_ratio_nearer_to_one():
    # From 2 times faster to 8 times slower: a quarter of two decades.
    row = one(found(eager=(1, 1, 1), python=(0.5, 8, 9)), "eager", "python")
    assert row.elements == pytest.approx(10 * 10**0.5)


def test_two_variants_are_compared_whatever_the_baseline():
    rows = found(eager=(7, 5, 3), fused=(2, 2, 2), cpp=(1, 1, 4))
    row = one(rows, "fused", "cpp")
    assert row.elements == pytest.approx(1000 * 100**0.5)
    assert (row.faster_below, row.faster_above) == ("cpp", "fused")


def test_every_pair_has_a_row():
    rows = found(eager=(1, 1, 1), python=(2, 2, 2), fused=(3, 3, 3), cpp=(4, 4, 4), native=(5, 5, 5))
    assert list(zip(rows["first"], rows["second"], strict=True)) == [
        ("eager", "python"), ("eager", "fused"), ("eager", "cpp"),
        ("python", "fused"), ("python", "cpp"), ("fused", "cpp"),
    ]  # fmt: skip
    assert set(rows["result"]) == {"none"}


def test_none_says_which_one_is_always_faster():
    rows = found(eager=(2, 2, 2), cpp=(1, 1.9, 0.5), python=(3, 3, 3))
    row = one(rows, "eager", "cpp")
    assert (row.result, row.faster_below, row.faster_above) == ("none", "cpp", "cpp")
    assert math.isnan(row.elements)
    assert one(rows, "eager", "python").faster_below == "eager"


def test_two_crossings_are_two_rows():
    first, second = pair(found(eager=(1, 1, 1), cpp=(2, 0.5, 2)), "eager", "cpp")
    assert (first.elements, second.elements) == (pytest.approx(100), pytest.approx(10_000))
    assert (first.faster_below, first.faster_above, second.faster_above) == ("eager", "cpp", "eager")


def test_a_ratio_of_one_is_on_the_way():
    row = one(found(eager=(1, 1, 1), cpp=(0.5, 1, 2)), "eager", "cpp")
    assert row.elements == pytest.approx(1000)
    row = one(found(eager=(1, 1, 1), cpp=(1, 1, 1)), "eager", "cpp")
    assert (row.result, row.faster_below) == ("none", "")
    assert one(found(eager=(1, 1, 1), cpp=(1, 2, 1)), "eager", "cpp").faster_above == "eager"


def test_a_size_that_one_of_them_lacks_is_left_out():
    row = one(found(eager=(4, 1, 1), cpp=(1, None, 4)), "eager", "cpp")
    assert (row.after, row.before) == (10, 100_000)
    assert row.elements == pytest.approx(1000)
    assert found(eager=(1, 1, 1), cpp=(1, None, None)).empty


def test_phases_dtypes_and_machines_are_curves_of_their_own():
    others = [record(function="square", workload=name, variant=variant, value=1e-3, version="1", **change)
              for change in ({"phase": "backward"}, {"dtype": "float64"}, {"machine": "other"})
              for name in SIZES for variant in ("eager", "cpp")]  # fmt: skip
    rows = found(*others, eager=(4, 1, 1), cpp=(1, 4, 4))
    assert len(rows) == 4
    assert list(rows["result"]) == ["none"] * 3 + ["crosses"]


def test_a_ratio_is_taken_inside_a_run_and_a_curve_may_join_runs():
    def run(name, workload, eager, cpp):
        return [record(function="square", workload=workload, variant=variant, value=value, version="1", run=name)
                for variant, value in (("eager", eager), ("cpp", cpp))]  # fmt: skip

    rows = found(*run("r1", "tiny", 4, 1), *run("r2", "small", 100, 400))
    assert one(rows, "eager", "cpp").elements == pytest.approx(100)


@pytest.mark.parametrize("change", [{"function": "gone"}, {"version": "0"}, {"workload": "wide"}])
def test_what_has_no_size_any_more_has_no_row(change):
    changed = [type(r)(**{**vars(r), **change}) for r in times(eager=(4, 1, None), cpp=(1, 4, None))]
    assert found(*changed).empty
    assert list(found().columns) == list(found(eager=(1, 1, 1), cpp=(1, 1, 1)).columns)


# Noise


def judged(variant, workload, value, verdict="", low=None, high=None):
    """A row as `add_speedups` leaves it, over an eager of 1 s."""
    frame = add_speedups(results.frame([record(function="square", variant=variant, workload=workload, version="1")]))
    return frame.assign(
        value=value, speedup=1 / value, speedup_low=low or math.nan, speedup_high=high or math.nan, verdict=verdict
    )


def with_eager(*rows):
    return break_even(pd.concat([*rows, *(judged("eager", name, 1.0) for name in ("tiny", "small"))]))


@pytest.mark.parametrize(
    ("verdicts", "clear"),
    [(("faster", "slower"), True), (("faster", "same"), False), (("cannot tell", "slower"), False)],
)
def test_a_crossing_is_clear_where_both_verdicts_are(verdicts, clear):
    rows = (
        judged("cpp", name, value, word)
        for name, value, word in zip(("tiny", "small"), (0.5, 2), verdicts, strict=True)
    )
    row = one(with_eager(*rows), "eager", "cpp")
    assert (row.result, row.clear) == ("crosses", clear)


@pytest.mark.parametrize(("width", "clear"), [(1.1, True), (1.9, True), (2.1, False), (None, False)])
def test_without_a_verdict_the_intervals_tell(width, clear):
    bounds = [{"low": s / width, "high": s * width} if width else {} for s in (2, 0.5)]
    rows = (judged("cpp", *case, **found) for case, found in zip((("tiny", 0.5), ("small", 2)), bounds, strict=True))
    assert one(with_eager(*rows), "eager", "cpp").clear == clear


@pytest.mark.parametrize(("width", "clear"), [(1.3, True), (1.5, False)])
def test_two_variants_differ_where_their_intervals_lie_apart(width, clear):
    def rows(variant, speedups):
        return [judged(variant, name, 1 / s, "faster", s / width, s * width)
                for name, s in zip(("tiny", "small"), speedups, strict=True)]  # fmt: skip

    row = one(with_eager(*rows("python", (4, 4)), *rows("cpp", (8, 8))), "python", "cpp")
    assert (row.result, row.faster_above, row.clear) == ("none", "cpp", clear)


# Sizes


def test_the_size_is_that_of_the_largest_input():
    assert [elements("square", workload, "float32") for workload in SIZES] == list(SIZES.values())
    with pytest.raises(LookupError, match="square has no workload 'wide'"):
        elements("square", "wide", "float32")


def test_inputs_that_exist_for_real_only_have_a_size_too(tmp_path):
    body = "    x = torch.ones(n)\n    assert x.sum().item() == n\n    return x, torch.ones(2 * n), 3.0, None\n"
    head, _, rest = DECLARATION.partition("    generator =")
    write_function(tmp_path, "real", head + body + rest[rest.index("\n\n\nSPEC") :])
    assert elements("real", "small", "float32") == 128


# The section


def test_the_section_says_where_they_cross_and_which_is_always_faster():
    records = times(eager=(4, 1, 1), python=(5, 5, 5), cpp=(1, 4, 4))
    section = breakeven.section(Inputs(results.frame(records)))
    assert section.anchor == "square-breakeven"
    (table,) = section.blocks
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns]
    rows = {row.cells[:2]: dict(zip(titles, row.cells, strict=True)) for row in table.rows}
    told = {(first.value, second.value): row for (first, second), row in rows.items()}
    assert told["eager", "cpp"]["Equal at"].value == 100
    assert told["eager", "cpp"]["Faster above"].value == "eager"
    assert told["eager", "python"]["Equal at"].reason == "none: eager is always faster"
    assert all(row.tags["phase"] == "forward" and "variant" not in row.tags for row in table.rows)


def test_a_section_of_one_size_is_left_out():
    assert breakeven.section(Inputs(results.frame(times(eager=(1, None, None), cpp=(1, None, None))))).empty
    assert breakeven.section(Inputs(results.frame([]))).empty


class TestShipped:
    """With the Functions that ship."""

    @pytest.fixture(autouse=True)
    def planted(self):
        """Nothing is planted."""

    @pytest.mark.parametrize("name", registry.names())
    @pytest.mark.parametrize("workload", ["tiny", "small", "large"])
    def test_the_size_without_allocation_is_that_of_the_inputs(self, name, workload):
        spec = registry.spec(name)
        inputs = spec.make_inputs(**spec.workloads[workload], **{"dtype": spec_dtype(spec), "device": "cpu"})
        assert elements(name, workload, spec.dtypes[0]) == max(t.numel() for t in inputs if hasattr(t, "numel"))


def spec_dtype(spec):
    return next(iter(spec.tolerances))
