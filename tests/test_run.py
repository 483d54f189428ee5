"""A run survives a kill: what was journalled is not measured again, what was not is, and nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch
from support import ROOT

from autofn.benching import bench
from autofn.measure import machine, run
from autofn.measure.rows import Arm, Group, Rows
from autofn.records import FAILED, Journal
from autofn.terms import PHASES

TASKS = [run.Task(Group("f", workload, "float32", "cpu"), (Arm("eager"), Arm("python")), "7") for workload in "abc"]


def planted(task, rows):
    """All records of a group, each with the number of the call that made it."""
    planted.calls.append(task.group.workload)
    for arm in task.arms:
        yield from rows.missing(arm.variant, FAILED, f"call {len(planted.calls)}")


@pytest.fixture(autouse=True)
def no_calls():
    planted.calls = []


def execute(path, tasks=TASKS, measure=planted, **options):
    return run.execute(
        tasks, PHASES, measure, Journal(path), conditions=lambda group: {"run": "r", "torch": group.workload}, **options
    )


def identity(record):
    return (record.variant, record.workload, record.phase, record.metric)


WHOLE = 2 * Rows(TASKS[0].group, PHASES).per_arm
EVERY = len(TASKS) * WHOLE


def test_every_group_is_measured_once_and_its_records_carry_the_conditions(tmp_path):
    found = execute(tmp_path / "j.jsonl")
    assert planted.calls == ["a", "b", "c"]
    assert len(found) == len(set(map(identity, found))) == EVERY
    assert all((r.run, r.torch, r.version) == ("r", r.workload, "7") for r in found)


def test_a_complete_run_measures_nothing_again(tmp_path):
    first = execute(tmp_path / "j.jsonl")
    assert execute(tmp_path / "j.jsonl") == first
    assert planted.calls == ["a", "b", "c"]


def test_a_run_that_is_cut_between_groups_goes_on_with_the_next(tmp_path):
    execute(tmp_path / "j.jsonl", TASKS[:2])
    found = execute(tmp_path / "j.jsonl")
    assert planted.calls == ["a", "b", "c"]
    assert len(found) == EVERY


@pytest.mark.parametrize(
    "cuts", [[1], [WHOLE // 4], [WHOLE - 3], [5, 5], [WHOLE * 2 // 3, WHOLE // 2], [WHOLE - 1] * 3], ids=str
)
def test_a_group_that_was_cut_short_is_measured_anew_as_a_whole(tmp_path, cuts):
    path = tmp_path / "j.jsonl"
    execute(path, TASKS[:1])
    for cut in cuts:
        before = len(path.read_text().splitlines())
        execute(path, TASKS[:2])
        lines = path.read_text().splitlines(keepends=True)
        assert len(lines) == before + WHOLE
        path.write_text("".join(lines[: before + cut]) + lines[before + cut][:40])
    found = execute(path)
    assert len(found) == len(set(map(identity, found))) == EVERY
    # All records of one group come from one call: a ratio is never taken across two.
    for workload in "abc":
        assert len({r.reason for r in found if r.workload == workload}) == 1
    assert found == execute(path)


def test_records_of_other_variants_do_not_count_as_those_asked_for(tmp_path):
    others = [run.Task(TASKS[0].group, (Arm("cpp"), Arm("fused")), "7")]
    execute(tmp_path / "j.jsonl", others)
    found = execute(tmp_path / "j.jsonl", TASKS[:1])
    assert {r.variant for r in found} == {"cpp", "fused", "eager", "python"}


def test_an_exception_while_a_group_is_measured_leaves_no_half_of_it(tmp_path):
    def breaks(task, rows):
        yield from rows.missing("eager", FAILED, "planted")
        raise KeyboardInterrupt

    path = tmp_path / "j.jsonl"
    execute(path, TASKS[:1])
    with pytest.raises(KeyboardInterrupt):
        execute(path, TASKS, breaks)
    assert {r.workload for r in Journal(path).records()} == {"a"}


def test_progress_counts_what_is_done_already(tmp_path):
    seen = []
    execute(tmp_path / "j.jsonl", TASKS[:2])
    execute(tmp_path / "j.jsonl", progress=lambda done, total, label: seen.append((done, total, label)))
    assert seen == [(2, 3, "f c float32 cpu"), (3, 3, "")]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_run
test_run.planted.calls = []
left = int(sys.argv[3])

def measure(task, rows):
    global left
    for record in test_run.planted(task, rows):
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        yield record

test_run.execute(Path(sys.argv[2]), measure=measure)
"""


@pytest.mark.parametrize(("after", "kept"), [(0, ""), (WHOLE, "a"), (WHOLE + 7, "a"), (2 * WHOLE, "ab")])
def test_a_process_that_is_killed_loses_only_the_group_it_was_at(tmp_path, after, kept):
    path = tmp_path / "j.jsonl"
    words = [sys.executable, "-c", KILLED, str(ROOT / "tests"), str(path), str(after)]
    assert subprocess.run(words, timeout=60).returncode == -signal.SIGKILL
    assert "".join(sorted({r.workload for r in Journal(path).records()})) == kept
    found = execute(path)
    assert planted.calls == [workload for workload in "abc" if workload not in kept]
    assert len(found) == len(set(map(identity, found))) == EVERY


@pytest.mark.parametrize("threads", [0, -1, machine.cores() + 1])
def test_more_threads_than_cores_or_none_are_refused_before_anything_is_measured(threads):
    with pytest.raises(ValueError, match=rf"threads: must be between 1 and the {machine.cores()} cores .*{threads}"):
        run.set_threads(threads)
    with pytest.raises(ValueError, match="threads: must be"):
        bench(threads=threads)
    assert torch.get_num_threads() <= machine.cores()


def test_the_threads_are_set():
    before = torch.get_num_threads()
    try:
        run.set_threads(machine.cores())
        assert torch.get_num_threads() == machine.cores()
    finally:
        run.set_threads(before)


def test_no_two_runs_have_one_name():
    assert len({run.run_id() for _ in range(1000)}) == 1000
    assert run.run_id().startswith(f"{os.getpid():x}-")
