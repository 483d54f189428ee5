"""Every result file becomes rows of one frame; a damaged one is named, skipped, and takes nothing along."""

from __future__ import annotations

import itertools
import json
import math
import warnings

import pandas as pd
import pytest

from autofn import asv_axes, results
from autofn.records import (
    ASV_JOURNAL,
    ASV_RESULTS,
    COLUMNS,
    FAILED,
    OK,
    RUNS,
    UNAVAILABLE,
    Journal,
    Record,
    to_line,
)
from autofn.results import DamagedFileWarning

COMMIT = "c" * 40
AXES = [[*asv_axes.VARIANTS], [*asv_axes.WORKLOADS], ["float32", "bfloat16"], ["cpu", "cuda"]]
CASES = list(itertools.product(*AXES))
COLUMN_NAMES = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
NAN = float("nan")


def record(**changes):
    fields = {
        "function": "f", "variant": "eager", "workload": "tiny", "dtype": "float32", "device": "cpu",
        "phase": "forward", "metric": "time_s", "unit": "s", "value": 1.5, "source": "bench", "run": "r",
        "machine": "vm", "commit": COMMIT, "date": "2026-11-30T10:00:00+00:00", "torch": "2.13.0+cpu",
    }  # fmt: skip
    return Record(**{**fields, **changes})


def packed(values, *more):
    """A benchmark as asv packs it: values by case, params, version, and such further columns as there are."""
    column = [values.get(case, NAN) for case in CASES]
    return [column, [[repr(value) for value in axis] for axis in AXES], "1", *more]


def write_asv(root, benchmarks, machine="vm", commit=COMMIT, name=None, **changes):
    folder = root / ASV_RESULTS / machine
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text("not for us {")
    content = {
        "commit_hash": commit, "env_name": "e", "date": 1796000119000, "params": {"machine": machine, "cpu": "EPYC"},
        "python": "3.11", "requirements": {"torch": "2.13.0"}, "env_vars": {}, "result_columns": COLUMN_NAMES,
        "results": benchmarks, "durations": {}, "version": 2, **changes,
    }  # fmt: skip
    path = folder / (name or f"{commit[:8]}-e.json")
    path.write_text(json.dumps(content))
    return path


def write_journal(root, *records, name="f.quick.jsonl"):
    journal = Journal(root / ASV_JOURNAL / "e" / COMMIT / name)
    journal.append(records)
    return journal.path


def case(variant="eager", workload="tiny", dtype="float32", device="cpu"):
    return variant, workload, dtype, device


def load(root, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return results.load(root, **options)


# The frame


def test_without_results_there_is_an_empty_frame_with_its_columns(tmp_path):
    found = load(tmp_path)
    assert len(found) == 0
    assert list(found.columns) == [*COLUMNS, "way", "file"]
    assert isinstance(found["date"].dtype, pd.DatetimeTZDtype)


def test_a_run_comes_back_row_by_row_with_the_types_of_the_columns(tmp_path):
    one = record(samples=(1.0, 2.0), number=3, threads=1, low=1.0, high=2.0, detail={"ledger": []})
    two = record(variant="cpp", value=None, status=UNAVAILABLE, reason="no compiler", date="")
    journal = Journal(tmp_path / RUNS / "bench-1.jsonl")
    journal.append([one, two])
    found = load(tmp_path)
    assert [row.status for row in found.itertuples()] == [OK, UNAVAILABLE]
    first, second = found.itertuples()
    assert (first.value, first.low, first.samples, first.number, first.detail) == (
        1.5,
        1.0,
        (1.0, 2.0),
        3,
        {"ledger": []},
    )
    assert first.date == pd.Timestamp("2026-11-30T10:00:00", tz="UTC")
    assert math.isnan(second.value)
    assert second.threads is pd.NA
    assert second.date is pd.NaT
    assert second.reason == "no compiler"
    assert set(found["file"]) == {str(journal.path)}


def test_only_the_sources_asked_for_are_read(tmp_path):
    Journal(tmp_path / RUNS / "bench-1.jsonl").append([record()])
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    assert set(load(tmp_path)["source"]) == {"bench", "asv"}
    assert set(load(tmp_path, sources=["asv"])["source"]) == {"asv"}
    assert set(load(tmp_path, sources=["runs"])["source"]) == {"bench"}


def test_a_run_that_is_not_finished_is_read_and_its_second_try_of_a_group_counts(tmp_path):
    journal = Journal(tmp_path / RUNS / "bench-1.unfinished.jsonl")
    journal.append([record(value=1.0), record(value=1.0, run="other"), record(value=2.0)])
    assert sorted(zip(load(tmp_path)["run"], load(tmp_path)["value"], strict=True)) == [("other", 1.0), ("r", 2.0)]


# asv's files


def test_a_value_of_asv_becomes_a_row_of_its_case(tmp_path):
    times = packed({case(): 2e-6, case("cpp", "large", "bfloat16", "cuda"): 3e-6})
    memory = packed({case("python"): 64})
    path = write_asv(tmp_path, {"timing.f.forward_backward_time": times, "memory.f.saved_bytes": memory})
    found = load(tmp_path)
    assert set(found["file"]) == {str(path)}
    rows = {
        (r.variant, r.workload, r.dtype, r.device): (r.function, r.phase, r.metric, r.unit, r.value, r.status)
        for r in found.itertuples()
    }
    assert rows == {
        case(): ("f", "forward_backward", "time_s", "s", 2e-6, OK),
        case("cpp", "large", "bfloat16", "cuda"): ("f", "forward_backward", "time_s", "s", 3e-6, OK),
        case("python"): ("f", "forward", "saved_bytes", "bytes", 64, OK),
    }
    assert set(found["commit"]) == {COMMIT}
    assert set(found["machine"]) == {"vm"}
    assert set(found["torch"]) == {"2.13.0"}
    assert set(found["version"]) == {"1"}
    assert set(found["date"]) == {pd.Timestamp(1796000119000, unit="ms", tz="UTC")}


def test_bounds_are_taken_where_asv_has_them_and_infinite_ones_are_none(tmp_path):
    lows, highs = [None] * len(CASES), [None] * len(CASES)
    where = {case("eager"): (1.0, 3.0), case("python"): (-math.inf, math.inf)}
    for which, (low, high) in where.items():
        lows[CASES.index(which)], highs[CASES.index(which)] = low, high
    write_asv(tmp_path, {"timing.f.forward_time": packed(dict.fromkeys(where, 2.0), 0, 0.1, lows, highs)})
    rows = {row.variant: row for row in load(tmp_path).itertuples()}
    assert (rows["eager"].low, rows["eager"].high) == (1.0, 3.0)
    assert math.isnan(rows["python"].low)
    assert math.isnan(rows["python"].high)


@pytest.mark.parametrize("length", [2, 3, 4, 7])
def test_columns_that_asv_cut_off_at_the_end_are_missing_and_no_more(tmp_path, length):
    full = packed({case(): 2.0}, 0, 0.1, [1.0] * len(CASES), [3.0] * len(CASES))
    write_asv(tmp_path, {"timing.f.forward_time": full[:length]})
    (row,) = load(tmp_path).itertuples()
    assert row.value == 2.0
    assert row.version == ("1" if length > 2 else "")
    assert (row.low == 1.0) == (length == 7)


def test_nan_without_a_reason_is_no_row_and_none_is_a_failed_one(tmp_path):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): None, case("cpp"): 1.0})})
    found = load(tmp_path)
    assert {row.variant: row.status for row in found.itertuples()} == {"eager": FAILED, "cpp": OK}
    assert found[found["status"] == FAILED]["reason"].item()


def test_a_benchmark_that_failed_as_a_whole_is_failed_in_every_case(tmp_path):
    write_asv(tmp_path, {"timing.f.forward_time": [None, *packed({})[1:]], "memory.f.saved_bytes": packed({case(): 1})})
    found = load(tmp_path)
    assert (found["status"] == FAILED).sum() == len(CASES)
    assert found[found["metric"] == "saved_bytes"]["value"].item() == 1


def test_benchmarks_of_others_are_left_out(tmp_path):
    write_asv(tmp_path, {"other.f.forward_time": [[1.0], []], "timing.f": [[1.0], []], "track_x": [3]})
    assert len(load(tmp_path)) == 0


# The journals beside them


def test_the_journal_adds_samples_interval_reason_and_conditions(tmp_path):
    times = {case(): 2.0, case("cpp"): NAN, case("fused"): None, case("native"): NAN}
    write_asv(tmp_path, {"timing.f.forward_time": packed(times)})
    write_journal(
        tmp_path,
        record(
            value=2.0, low=1.9, high=2.1, samples=(1.9, 2.0, 2.1), number=5, processes=6, run="x", allocator="stock"
        ),
        record(variant="cpp", value=None, status=UNAVAILABLE, reason="no compiler"),
        record(variant="fused", value=None, status=FAILED, reason="it broke"),
    )
    rows = {row.variant: row for row in load(tmp_path).itertuples()}
    eager = rows["eager"]
    assert (eager.samples, eager.low, eager.high, eager.number) == ((1.9, 2.0, 2.1), 1.9, 2.1, 5)
    assert (eager.run, eager.processes, eager.allocator, eager.torch) == ("x", 6, "stock", "2.13.0+cpu")
    assert (rows["cpp"].status, rows["cpp"].reason) == (UNAVAILABLE, "no compiler")
    assert (rows["fused"].status, rows["fused"].reason) == (FAILED, "it broke")
    # Not in the journal: asv was not asked for it.
    assert "native" not in rows


@pytest.mark.parametrize(
    "change", [{"commit": "d" * 40}, {"torch": "2.12.0+cpu"}, {"phase": "backward"}, {"samples": (9.0,)}]
)
def test_samples_of_something_else_are_not_taken(tmp_path, change):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    write_journal(tmp_path, record(**{"value": 2.0, "samples": (1.0, 2.0, 3.0), **change}))
    (row,) = load(tmp_path).itertuples()
    assert row.samples == ()


def test_the_value_is_that_of_its_interval_over_processes_not_asvs_median_of_all_samples(tmp_path):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    write_journal(tmp_path, record(value=2.5, low=2.4, high=2.6, samples=(1.0, 2.0, 2.0, 9.0), processes=2))
    (row,) = load(tmp_path).itertuples()
    assert (row.value, row.low, row.high, row.processes) == (2.5, 2.4, 2.6, 2)


@pytest.mark.parametrize("names", [("f.full.jsonl", "f.quick.jsonl"), ("f.quick.jsonl", "f.full.jsonl")])
def test_of_several_runs_of_one_commit_the_samples_are_those_of_the_value(tmp_path, names):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    write_journal(tmp_path, record(value=2.0, samples=(1.9, 2.0, 2.1), run="mine"), name=names[0])
    later = "2026-12-01T10:00:00+00:00"
    write_journal(tmp_path, record(value=7.0, samples=(6.0, 7.0, 8.0), run="other", date=later), name=names[1])
    (row,) = load(tmp_path).itertuples()
    assert (row.run, row.samples) == ("mine", (1.9, 2.0, 2.1))


def test_another_machine_of_the_same_commit_gets_nothing_of_this_ones_journal(tmp_path):
    benchmarks = {"timing.f.forward_time": {case(): 2.0, case("cpp"): NAN}, "memory.f.saved_bytes": {case(): 8}}
    write_asv(tmp_path, {name: packed(values) for name, values in benchmarks.items()})
    benchmarks["timing.f.forward_time"][case()] = 5.0
    write_asv(tmp_path, {name: packed(values) for name, values in benchmarks.items()}, machine="elsewhere")
    write_journal(
        tmp_path,
        record(value=2.0, samples=(2.0,), run="here"),
        record(variant="cpp", value=None, status=UNAVAILABLE, reason="no compiler here", run="here"),
        record(metric="saved_bytes", value=8, run="here"),
    )
    found = load(tmp_path)
    assert list(found[found["machine"] == "vm"]["run"]) == ["here"] * 3
    assert list(found[found["machine"] == "elsewhere"]["run"]) == [""] * 2


def test_a_machine_that_asv_knows_by_another_name_is_recognised_by_its_times(tmp_path):
    times = packed({case(): 2.0, case("cpp"): NAN})
    write_asv(tmp_path, {"timing.f.forward_time": times}, machine="benchmarking box")
    unavailable = record(variant="cpp", value=None, status=UNAVAILABLE, reason="no compiler")
    write_journal(tmp_path, record(value=2.0, samples=(2.0,)), unavailable)
    assert {row.variant: row.reason for row in load(tmp_path).itertuples()} == {"eager": "", "cpp": "no compiler"}


# Damage

FOREIGN = [
    "", "{", "[]", "3", "null", "{}", '{"version": 1}', '{"version": 2}', '{"version": 2, "params": []}', "\x00\xff",
]  # fmt: skip
DAMAGED_FIELDS = [
    {"params": None}, {"params": {}}, {"requirements": None}, {"results": []},
    {"results": {"timing.f.forward_time": 3}},
    {"results": {"timing.f.forward_time": []}}, {"results": {"timing.f.forward_time": [[1.0], [["'eager'"]], "1"]}},
    {"results": {"timing.f.forward_time": [[1.0], [["<type>"], ["x"], ["x"], ["x"]], "1"]}},
    {"results": {"timing.f.forward_time": packed({case(): "fast"})}}, {"date": "yesterday"}, {"date": 1e300},
    {"result_columns": None}, {"commit_hash": None, "date": None},
    {"results": {"timing.f.forward_time": [[1.0, 2.0], [["'a'"], ["'b'"], ["'c'"], ["'d'"]], "1"]}},
]  # fmt: skip


@pytest.mark.parametrize("text", FOREIGN)
def test_a_foreign_file_among_asvs_is_named_and_skipped(tmp_path, text):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    foreign = tmp_path / ASV_RESULTS / "vm" / "foreign.json"
    foreign.write_bytes(text.encode("latin-1"))
    with pytest.warns(DamagedFileWarning, match=r"foreign\.json: skipped") as caught:
        found = results.load(tmp_path)
    assert len(caught) == 1
    assert found["value"].item() == 2.0


@pytest.mark.parametrize("changes", DAMAGED_FIELDS, ids=str)
def test_a_damaged_file_of_asv_is_named_and_skipped(tmp_path, changes):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    content = {"timing.f.forward_time": packed({case(): 3.0})}
    write_asv(tmp_path, content, name="damaged.json", **changes)
    with pytest.warns(DamagedFileWarning, match=r"damaged\.json: skipped") as caught:
        found = results.load(tmp_path)
    assert len(caught) == 1
    assert found["value"].item() == 2.0


@pytest.mark.parametrize(
    "line",
    ["{", '{"function": "f"}', "[1]", to_line(record())[:60], to_line(record()).replace("1.5", '"fast"'), "\udcff"],
)
def test_a_damaged_line_of_a_run_is_named_with_its_number_and_skipped(tmp_path, line):
    path = tmp_path / RUNS / "bench-1.jsonl"
    path.parent.mkdir(parents=True)
    lines = [to_line(record()), line, "", to_line(record(variant="cpp"))]
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogateescape") + b"\n")
    with pytest.warns(DamagedFileWarning, match=r"bench-1\.jsonl: skipped.*line 2"):
        found = results.load(tmp_path)
    assert list(found["variant"]) == ["eager", "cpp"]


def test_what_cannot_even_be_opened_is_named_and_skipped(tmp_path):
    Journal(tmp_path / RUNS / "bench-1.jsonl").append([record()])
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    for folder in (tmp_path / RUNS, tmp_path / ASV_RESULTS / "vm", tmp_path / ASV_JOURNAL / "e" / COMMIT):
        for name in ("folder.json", "folder.jsonl"):
            (folder / name).mkdir(parents=True)
    with pytest.warns(DamagedFileWarning) as caught:
        found = results.load(tmp_path)
    assert len(caught) == 3
    assert sorted(found["value"]) == [1.5, 2.0]


def test_a_damaged_journal_costs_its_damaged_lines_only(tmp_path):
    write_asv(tmp_path, {"timing.f.forward_time": packed({case(): 2.0})})
    path = write_journal(tmp_path, record(value=2.0, samples=(2.0,)))
    path.write_bytes(b"\xff\xfe{\n" + path.read_bytes() + b'{"function": 3}\n')
    assert load(tmp_path)["samples"].item() == (2.0,)


# The latest


def test_the_latest_of_what_is_said_twice_under_the_same_conditions():
    found = results.frame(
        [
            record(value=2.0, date="2026-11-30T12:00:00+00:00"),
            record(value=1.0, date="2026-11-30T11:00:00+00:00"),
            record(value=0.0, date=""),
        ]
    )
    assert results.latest(found)["value"].item() == 2.0


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "b"}, {"commit": "d"}, {"threads": 2}, {"allocator": "settled"}, {"torch": "2.12"},
        {"phase": "backward"}, {"metric": "saved_bytes"}, {"variant": "cpp"}, {"cache": "cold"}, {"protocol": "2"},
        {"version": "2"},
    ],
    ids=str,
)  # fmt: skip
def test_what_was_measured_under_other_conditions_is_another_thing(change):
    assert len(results.latest(results.frame([record(), record(**change)]))) == 2
