"""What sections take from the same results is made once, and of one Function it is that Function's part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest
import sample_results as sample
from pandas.testing import assert_frame_equal

from autofn import results
from autofn.reporting import inputs, order, speedup
from autofn.reporting.derived import Derived, crossings, current
from autofn.reporting.inputs import Inputs
from autofn.reporting.sections.checks import checked

FUNCTIONS = ("exp", "clipped_relu", "own_function")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    root = tmp_path_factory.mktemp("root")
    sample.write_everything(root, FUNCTIONS)
    return inputs.load(root)


@pytest.mark.parametrize("make", [current, crossings, checked])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_of_one_function_it_is_what_its_own_results_give(
    loaded: Inputs, make: Callable[[Derived], pd.DataFrame], function: str
) -> None:
    alone = make(Derived(loaded.results[loaded.results["function"] == function]))
    found = loaded.of(function).derived.frame(make)
    assert_frame_equal(found.reset_index(drop=True), alone.reset_index(drop=True), check_dtype=len(alone) > 0)
    # Of a Function that is not in this installation no size is known, so nothing crosses.
    assert len(found) or (make, function) == (crossings, "own_function")


def test_it_is_made_once_for_all_pages_and_anew_for_other_results(loaded: Inputs) -> None:
    made = []

    def make(derived: Derived) -> pd.DataFrame:
        made.append(derived)
        return derived.results

    for found in (loaded, replace(loaded, detail="comparison.html"), loaded.of("exp"), loaded.of("nothing")):
        found.derived.frame(make)
    assert len(made) == 1
    assert loaded.of("nothing").derived.frame(make).empty
    fewer = loaded.only(loaded.results[loaded.results["workload"] == "tiny"])
    assert set(fewer.derived.frame(make)["workload"]) == {"tiny"}
    assert len(made) == 2


def test_rows_are_sorted_as_readers_expect_and_equal_ones_stay_in_their_order() -> None:
    cases = [
        ("exp", "small", "cpp", "r1"), ("exp", "huge", "eager", "r1"), ("exp", "small", "eager", "r2"),
        ("exp", "tiny", "python", "r1"), ("exp", "small", "eager", "r1"), ("cube", "tiny", "cpp_seeded", "r1"),
        ("cube", "tiny", "cpp", "r1"), ("cube", "tiny", "own", "r1"), ("cube", "tiny", "fused", "r1"),
    ]  # fmt: skip
    names = ("function", "workload", "variant", "run")
    frame = results.frame(sample.record(**dict(zip(names, case, strict=True))) for case in cases)
    assert list(order.sort(frame)[[*names]].itertuples(index=False, name=None)) == [
        ("cube", "tiny", "fused", "r1"), ("cube", "tiny", "cpp", "r1"), ("cube", "tiny", "cpp_seeded", "r1"),
        ("cube", "tiny", "own", "r1"), ("exp", "tiny", "python", "r1"), ("exp", "small", "eager", "r2"),
        ("exp", "small", "eager", "r1"), ("exp", "small", "cpp", "r1"), ("exp", "huge", "eager", "r1"),
    ]  # fmt: skip
    assert order.sort(frame[:0]).empty


def test_rows_without_a_value_form_a_group_like_others() -> None:
    frame = results.frame(
        sample.record(threads=threads, run=str(number)) for number, threads in enumerate([2, None] * 2)
    )
    found = order.groups(frame, ["threads", "variant"])
    assert [[row["run"] for row in rows] for rows in found.values()] == [["0", "2"], ["1", "3"]]
    assert next(iter(found)) == (2, "eager")


def test_the_newest_is_the_last_of_its_date_and_one_without_a_date_is_the_oldest() -> None:
    dates = ["2026-11-02T00:00:00+00:00", "2026-11-01T00:00:00+00:00", "", "2026-11-02T00:00:00+00:00"]
    rows = [sample.record(run=f"r{number}", date=date) for number, date in enumerate(dates)]
    other = sample.record(variant="cpp", run="r9", date="")
    assert list(speedup.newest(results.frame([*rows, other]))["run"]) == ["r9", "r3"]
    assert list(speedup.newest(results.frame(rows), ["variant", "run"])["run"]) == ["r2", "r1", "r0", "r3"]
    assert speedup.newest(results.frame([])).empty
