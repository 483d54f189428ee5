"""Results of jobs become those of the repository: nothing lost, nothing counted twice, nothing damaged touched."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from autofn import asv_axes, results
from autofn.fleets import failures
from autofn.fleets.cells import Cell, Machine, Suite
from autofn.fleets.merging import Merged, combine, merge
from autofn.records import ASV_AGAIN, ASV_JOURNAL, ASV_RESULTS, FAILED, Journal, Record

COMMIT = "c" * 40
NAN = math.nan
DEVICES = ["'cpu'", "'cuda'"]
PARAMS = [["'eager'", "'cpp'"], ["'small'"], ["'float32'"], DEVICES]
COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "samples"]
NAME = "timing.ant.forward_time"


def packed(values, started=1, params=PARAMS, version="1"):
    """A benchmark with values in the order of eager cpu, eager cuda, cpp cpu, cpp cuda, and bounds around them."""
    lows, highs = ([value if value is None else value * by for value in values] for by in (0.9, 1.1))
    return [values, params, version, started, 0.5, lows, highs]


def file(benchmarks, machine="epyc"):
    return {
        "version": 2, "commit_hash": COMMIT, "env_name": "e", "date": 1796000119000, "python": "3.11",
        "params": {"machine": machine, "cpu": "EPYC"}, "requirements": {"torch": "2.13.0"}, "env_vars": {},
        "result_columns": COLUMNS, "results": benchmarks, "durations": {},
    }  # fmt: skip


@pytest.fixture
def fleet(tmp_path):
    """`fleet(values)`: a job that measured these is merged into the root; `fleet.rows()`: what is there now."""

    def run(benchmarks, machine="epyc", journal=()):
        shutil.rmtree(tmp_path / "job", ignore_errors=True)
        folder = tmp_path / "job" / ASV_RESULTS / machine
        folder.mkdir(parents=True)
        (folder / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
        (folder / f"{COMMIT[:8]}-e.json").write_text(json.dumps(file(benchmarks, machine)))
        (folder.parent / "benchmarks.json").write_text(json.dumps({"version": 2, **{name: {} for name in benchmarks}}))
        if journal:
            Journal(tmp_path / "job" / ASV_JOURNAL / "e" / COMMIT / "ant.quick.jsonl").append(journal)
        return merge(tmp_path / "job", run.root, machine)

    def rows():
        found = results.load(run.root)
        return sorted((r.machine, r.variant, r.device, r.value, r.low) for r in found.itertuples())

    run.root, run.job, run.rows = tmp_path / "root", tmp_path / "job", rows
    run.stored = run.root / ASV_RESULTS / "epyc" / f"{COMMIT[:8]}-e.json"
    return run


def row(variant, device, value, machine="epyc"):
    return (machine, variant, device, value, value * 0.9)


def test_the_first_results_are_taken_as_they_are(fleet):
    assert fleet({NAME: packed([1.0, NAN, 2.0, NAN])}) == Merged(2, 0)
    assert json.loads(fleet.stored.read_text())["results"][NAME][0][0] == 1.0
    assert fleet.rows() == [row("cpp", "cpu", 2.0), row("eager", "cpu", 1.0)]
    assert (fleet.stored.parent / "machine.json").exists()


def test_cases_that_were_not_there_are_filled_in(fleet):
    fleet({NAME: packed([1.0, NAN, 2.0, NAN])})
    assert fleet({NAME: packed([NAN, 3.0, NAN, 4.0]), "memory.ant.saved_bytes": packed([8, 8, 8, 8])}).repeated == 0
    assert [row[:4] for row in fleet.rows() if row[3] < 8] == [
        ("epyc", "cpp", "cpu", 2.0), ("epyc", "cpp", "cuda", 4.0), ("epyc", "eager", "cpu", 1.0),
        ("epyc", "eager", "cuda", 3.0),
    ]  # fmt: skip
    assert len(fleet.rows()) == 8
    assert not (fleet.root / ASV_AGAIN).exists()


def test_what_was_measured_twice_is_kept_twice_and_asv_sees_the_first(fleet):
    fleet({NAME: packed([1.0, NAN, 2.0, NAN])})
    assert fleet({NAME: packed([5.0, 6.0, 2.0, NAN], started=2)}) == Merged(3, 1)
    assert fleet.rows() == [
        row("cpp", "cpu", 2.0), row("eager", "cpu", 1.0), row("eager", "cpu", 5.0), row("eager", "cuda", 6.0)
    ]  # fmt: skip
    values = json.loads(fleet.stored.read_text())["results"][NAME][0]
    assert values[:3] == [1.0, 6.0, 2.0]
    latest = results.latest(results.load(fleet.root))
    assert latest[(latest["variant"] == "eager") & (latest["device"] == "cpu")]["value"].item() == 5.0


@pytest.mark.parametrize("values", [[1.0, NAN, 2.0, NAN], [7.0, 6.0, NAN, None]])
def test_the_same_results_merged_again_change_nothing(fleet, values):
    fleet({NAME: packed([1.0, NAN, 2.0, NAN])})
    fleet({NAME: packed(values, started=2)})
    files = {path: path.read_text() for path in fleet.root.rglob("*.json*")}
    merge(fleet.job, fleet.root, "epyc")
    assert {path: path.read_text() for path in fleet.root.rglob("*.json*")} == files


@pytest.mark.parametrize("other", [{"version": "2"}, {"params": [["'eager'"], ["'small'"], ["'float32'"], DEVICES]}])
def test_where_the_inputs_or_the_axes_changed_both_are_kept_and_asv_has_the_new_ones(fleet, other):
    fleet({NAME: packed([1.0, NAN, 2.0, NAN])})
    fleet({NAME: packed([5.0, NAN, NAN, NAN][: 4 if "version" in other else 2], **other)})
    assert [row[3] for row in fleet.rows()] == [2.0, 1.0, 5.0]
    assert json.loads(fleet.stored.read_text())["results"][NAME][0][0] == 5.0


def test_a_failure_gives_way_to_a_value_and_never_the_other_way_round(fleet):
    fleet({NAME: packed([None, 1.0, NAN, None])})
    fleet({NAME: packed([2.0, None, None, NAN], started=2)})
    assert json.loads(fleet.stored.read_text())["results"][NAME][0] == [2.0, 1.0, None, None]
    assert not (fleet.root / ASV_AGAIN).exists()


def test_a_benchmark_that_failed_as_a_whole_is_filled_in(fleet):
    fleet({NAME: [None, PARAMS, "1", 1, 0.5]})
    fleet({NAME: packed([1.0, NAN, 2.0, NAN])})
    assert json.loads(fleet.stored.read_text())["results"][NAME][0] == [1.0, None, 2.0, None]


def test_machines_are_told_apart(fleet):
    fleet({NAME: packed([1.0, NAN, NAN, NAN])})
    fleet({NAME: packed([2.0, NAN, NAN, NAN])}, machine="xeon")
    assert fleet.rows() == [row("eager", "cpu", 1.0), row("eager", "cpu", 2.0, "xeon")]


@pytest.mark.parametrize("text", ["{", "", "[]", '{"version": 1}'])
def test_a_damaged_file_stays_as_it_is_and_the_new_results_lie_beside_it(fleet, text):
    fleet({NAME: packed([1.0, NAN, NAN, NAN])})
    fleet.stored.write_text(text)
    fleet({NAME: packed([2.0, NAN, NAN, NAN])})
    fleet({NAME: packed([NAN, 3.0, NAN, NAN])})
    assert fleet.stored.read_text() == text
    with pytest.warns(results.DamagedFileWarning, match=fleet.stored.name):
        assert [row[3] for row in fleet.rows()] == [2.0, 3.0]


def test_a_journal_gets_the_lines_that_it_lacks(fleet):
    def record(value):
        return Record("ant", "eager", "small", "float32", "cpu", "forward", "time_s", "s", value, commit=COMMIT)

    benchmarks = {NAME: packed([1.0, NAN, NAN, NAN])}
    fleet(benchmarks, journal=[record(1.0), record(2.0)])
    (path,) = (fleet.root / ASV_JOURNAL).rglob("*.jsonl")
    with path.open("a") as end:
        end.write('{"cut short')
    fleet(benchmarks, journal=[record(2.0), record(3.0)])
    assert [found.value for found in Journal(path).records()] == [1.0, 2.0, 3.0]


def test_two_files_are_combined_whatever_columns_asv_cut(fleet):
    kept, again = combine(file({NAME: packed([1.0, NAN, NAN, NAN])[:3]}), file({NAME: packed([2.0, 3.0, NAN, NAN])}))
    columns = dict(zip(kept["result_columns"], kept["results"][NAME], strict=True))
    assert columns["result"][:2] == [1.0, 3.0]
    assert columns["stats_ci_99_a"][:2] == [None, 3.0 * 0.9]
    assert again["results"][NAME][0][0] == 2.0


def test_a_cell_that_failed_is_rows_until_it_is_measured(tmp_path):
    name = asv_axes.names()[0]
    cell, suite = Cell(COMMIT, Machine("epyc"), "cpu"), Suite("quick", (name,))
    failures.write(tmp_path, cell, suite, FAILED, "its node failed")
    failures.write(tmp_path, cell, suite, FAILED, "out of memory")
    found = results.load(tmp_path)
    assert set(found["reason"]) == {"out of memory"}
    assert set(found["status"]) == {FAILED}
    assert set(found["phase"]) == set(asv_axes.PHASES)
    assert set(found["workload"]) == set(asv_axes.WORKLOADS)
    assert set(found["dtype"]) == {"float32"}
    assert not found.duplicated(["variant", "workload", "dtype", "phase"]).any()
    assert set(found["variant"]) <= set(asv_axes.variants(name))
    failures.forget(tmp_path, cell, suite)
    assert len(results.load(tmp_path)) == 0
