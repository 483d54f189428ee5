"""What a machine reaches is measured in the run, is plausible, and is taken for no Function by any reader."""

from __future__ import annotations

from statistics import median

import pytest
import sample_results as sample
import torch

from autofn import results
from autofn.measure import ceilings, machine, measure_tasks, run, selection
from autofn.measure.rows import Arm, Group, Rows
from autofn.rates import add_rates
from autofn.records import FAILED, OK, UNAVAILABLE, Journal, Record, from_line, is_ceiling, to_line
from autofn.reporting import inputs
from autofn.reporting.sections import functions, matrix
from autofn.speedups import add_speedups


@pytest.fixture(scope="module")
def found():
    return ceilings.measure(1, ["float32", "float64"], "cpu")


def test_there_are_two_copies_and_a_product_a_dtype(found):
    told = {(r.variant, r.workload, r.dtype) for r in found}
    assert told == {
        ("copy", "small", "uint8"), ("copy", "large", "uint8"),
        ("matmul", "large", "float32"), ("matmul", "large", "float64"),
    }  # fmt: skip
    assert all(is_ceiling(r.function) and r.status == OK and r.metric == "time_s" for r in found)
    assert all((r.threads, r.device, r.torch) == (1, "cpu", torch.__version__) for r in found)
    assert all(r.value == min(r.samples) > 0 and r.number >= 1 for r in found)
    assert [from_line(to_line(r)) for r in found] == found


def test_their_rates_are_those_of_a_machine(found):
    for r in found:
        done = r.detail["bytes"] if r.variant == "copy" else r.detail["flops"]
        assert 1e8 < done / r.value < 1e14
    by_name = {(r.variant, r.workload, r.dtype): r for r in found}
    single, double = by_name["matmul", "large", "float32"], by_name["matmul", "large", "float64"]
    assert single.detail["flops"] == 2 * 512**3
    # Half as many numbers fit a register; wide margins, for neighbours disturb.
    assert 1 < (double.value / double.detail["flops"]) / (single.value / single.detail["flops"]) < 6


@pytest.mark.measured
def test_a_copy_of_twice_the_bytes_takes_about_twice_as_long():
    one, two = (ceilings.sampler(ceilings.copy(moved, "cpu"), "cpu") for moved in (2**26, 2**27))
    for sample_one in (one, two):
        sample_one(3)
    pairs = [(one(3), two(3)) for _ in range(9)]
    assert 1.2 < median(long / short for short, long in pairs) < 3.5


def test_a_copy_writes_what_it_reads_and_a_product_multiplies():
    assert ceilings.copy(64, "cpu")().tolist() == [1] * 32
    assert ceilings.product(8, "float64", "cpu")().shape == (8, 8)


def test_the_threads_are_as_before_afterwards():
    before = torch.get_num_threads()
    ceilings.measure(machine.cores(), [], "cpu")
    assert torch.get_num_threads() == before


def test_a_product_that_there_is_not_is_a_row_with_its_reason():
    rows = ceilings.measure(1, ["bool", "float32"], "cpu")
    told = {r.dtype: r.status for r in rows if r.variant == "matmul"}
    assert told == {"bool": FAILED, "float32": OK}
    assert all(r.reason for r in rows if r.status == FAILED)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_every_row_says_so():
    rows = ceilings.measure(1, ["float32"], "cuda")
    assert {(r.status, r.reason) for r in rows} == {(UNAVAILABLE, "no CUDA device")}
    assert len(rows) == 3


# In a run


@pytest.fixture(scope="module")
def journalled(tmp_path_factory):
    """A run of one Function in this process, twice with one journal."""
    tasks = selection.tasks(["exp"], variants=["python"], workloads=["small"])
    journal = Journal(tmp_path_factory.mktemp("run") / "bench.jsonl")
    conditions = {"source": "bench", "run": "r1", "commit": "c" * 40}
    once, twice = (
        measure_tasks(tasks, ["forward"], journal, conditions=conditions, isolate=False, budget_s=0.01)
        for _ in range(2)
    )
    return once, twice


def test_a_run_holds_its_ceilings_once(journalled):
    once, twice = journalled
    assert once == twice
    ours = [r for r in once if is_ceiling(r.function)]
    assert len(ours) == 3
    assert {(r.run, r.source, r.commit) for r in once} == {("r1", "bench", "c" * 40)}


def test_a_runs_rates_come_from_its_own_ceilings(journalled):
    frame = results.frame(journalled[0])
    rows = add_rates(frame, frame)
    assert set(rows["variant"]) == {"eager", "python"}
    assert (rows["percent_of_ceiling"] > 0).all()
    assert set(rows["bound"]) <= {"bytes", "operations"}


# Nothing takes them for a Function

PLANTED = [
    Record(
        function="ceiling", variant=variant, workload="large", dtype="float32", device="cpu", phase="forward",
        metric="time_s", unit="s", value=1e-3, source="bench", run="r1", commit="c" * 40, detail={"bytes": 10**6},
        date="2026-11-20T10:00:00+00:00", machine="bench-1",
    )
    for variant in ("copy", "eager")
]  # fmt: skip


def test_they_complete_no_group():
    task = run.Task(Group("ceiling", "large", "float32", "cpu"), (Arm("copy"),), "1")
    done = list(Rows(task.group, ["forward"]).missing("copy", FAILED, "x"))
    assert run.missing([task], ["forward"], done) == [task]


def test_they_have_no_speedup_and_are_no_case():
    frame = results.frame([*PLANTED, sample.record()])
    assert list(add_speedups(frame)["function"]) == ["clipped_relu"]
    assert list(results.latest(frame)["function"]) == ["clipped_relu"]


def test_no_section_names_them(tmp_path):
    sample.write_run(tmp_path, "bench", [*PLANTED, sample.record()])
    loaded = inputs.load(tmp_path)
    assert set(loaded.results["function"]) == {"clipped_relu"}
    assert len(loaded.ceilings) == len(loaded.of("exp").ceilings) == 2
    assert [section.title for section in functions.sections(loaded, [])] == ["clipped_relu"]
    (table,) = matrix.section(loaded).blocks
    assert "ceiling" not in {row.cells[0].value for row in table.rows}
    assert "copy" not in {column.title for column in table.columns}
