"""What an engine makes of what a scheduler says of its jobs, without a scheduler."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from support import environment

from autofn.fleets import engine, job
from autofn.fleets.engine import Ended, Local, Slurm

ORDER = job.Order("/nowhere", "", "", "", "", "c" * 40, "epyc", "cpu", "quick", ())


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """`slurm(states)`: what one look gives, where squeue shows these states."""
    pytest.importorskip("submitit")
    found = Slurm(tmp_path, minutes=1)
    monkeypatch.setattr(engine, "_accounted", lambda name: "")

    def look(states):
        monkeypatch.setattr(engine, "_queue", lambda: states)
        return found.ended({"7_0": ORDER})

    return look


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED"])
def test_a_job_that_may_still_run_has_not_ended(slurm, state):
    assert [slurm({"7_0": state}) for _ in range(4)] == [{}] * 4


def test_while_slurm_does_not_answer_no_job_has_ended(slurm):
    assert [slurm(None) for _ in range(4)] == [{}] * 4


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("PREEMPTED", "preempted by the scheduler"), ("TIMEOUT", "out of time"), ("NODE_FAIL", "its node failed"),
        ("OUT_OF_MEMORY", "out of memory"), ("CANCELLED", "cancelled"), ("FAILED", "its process is gone"),
        ("COMPLETED", "its process is gone"), (None, "its process is gone"),
    ],
)  # fmt: skip
def test_a_job_that_is_gone_without_a_result_has_the_schedulers_reason(slurm, state, words):
    states = {"7_0": state} if state else {}
    # Its result may still be on the way over the file system.
    assert slurm(states) == {}
    (ended,) = slurm(states).values()
    assert words in ended.reason


def test_a_reason_of_the_scheduler_stands_before_that_of_a_job_that_it_stopped(slurm, monkeypatch):
    said = Ended("stopped from outside, by SIGTERM", "node3")
    monkeypatch.setattr(engine, "_result", lambda job: said)
    assert slurm({"7_0": "TIMEOUT"}) == {"7_0": Ended(engine.IN_WORDS["TIMEOUT"], "node3")}
    assert slurm({"7_0": "COMPLETED"}) == {"7_0": said}
    said = Ended("", "node3")
    assert slurm({"7_0": "TIMEOUT"}) == {"7_0": said}, "it was through before its time was"


def test_a_local_job_of_a_coordinator_that_was_killed_is_taken_up_only_if_it_has_ended(tmp_path):
    submitit = pytest.importorskip("submitit")
    local = Local(tmp_path, minutes=1)
    assert not local.adopt("abc/123", ORDER)
    paths = submitit.LocalJob(tmp_path / engine.LOGS / "abc", "123").paths
    paths.result_pickle.parent.mkdir(parents=True, exist_ok=True)
    submitit.core.utils.cloudpickle_dump(("success", {"reason": "", "host": "here"}), paths.result_pickle)
    assert local.adopt("abc/123", ORDER)
    assert local.ended({"abc/123": ORDER}) == {"abc/123": Ended("", "here")}


def test_what_a_job_leaves_behind_is_found_by_its_mark_and_is_gone_afterwards(tmp_path, monkeypatch):
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], env=environment(tmp_path, **{job.MARK: str(tmp_path)}), check=True)
    (orphan,) = job.processes_of(str(tmp_path))
    assert b"sleep" in Path(f"/proc/{orphan}/cmdline").read_bytes()
    job.end_processes(str(tmp_path), but=[orphan])
    assert job.processes_of(str(tmp_path)) == [orphan]
    # A busy machine takes its time to do what a signal says.
    at_once = os.kill

    def later(pid, number):
        with suppress(ProcessLookupError):
            at_once(pid, number)

    monkeypatch.setattr(os, "kill", lambda *call: threading.Timer(0.2, later, call).start())
    job.end_processes(str(tmp_path))
    assert job.processes_of(str(tmp_path)) == []


def test_a_signal_ends_a_job_with_its_name():
    with pytest.raises(job.StoppedError, match="stopped from outside, by SIGUSR2"), job._stopping():
        os.kill(os.getpid(), signal.SIGUSR2)
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("timing.ant.forward_time('cpp', 'small', 'float32', 'cpu')", True),
        ("memory.ant.saved_bytes('python_a', 'large', 'float32', 'cpu')", True),
        ("timing.ant.forward_time('cpp', 'small', 'float64', 'cpu')", False),
        ("timing.ant.forward_time('cpp', 'small', 'float32', 'cuda')", False),
        ("timing.anteater.forward_time('cpp', 'small', 'float32', 'cpu')", False),
    ],
)
def test_asv_is_asked_for_the_cases_of_the_profile_device_and_function(name, runs):
    assert bool(re.search(job.selection("quick", "cpu", ("ant", "bee")), name)) is runs
