"""`autofn fleet --engine slurm` on a real Slurm of one node, which has the features of two kinds of machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import one_node_slurm
import pytest
from support import environment, git, scratch_repository

from autofn import results
from autofn.records import ASV_RESULTS, FAILED, OK

pytestmark = pytest.mark.slow

WORDS = ["fleet", "--engine", "slurm", "--profile", "glance", "--function", "ant"]
BIG, SMALL = ("--machine", "big:constraint=big"), ("--machine", "small:constraint=small")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    reason = one_node_slurm.missing()
    if reason:
        pytest.skip(reason)
    with one_node_slurm.one_node(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return scratch_repository(tmp_path_factory.mktemp("fleet") / "repository", "ant")


def start(repository, cluster, *words):
    variables = environment(repository, AUTOFN_NO_EXTENSION="1", HOME=str(repository), **cluster)
    return subprocess.Popen(
        [sys.executable, "-m", "autofn", *WORDS, *words], cwd=repository, env=variables, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def slurm(cluster, *words):
    done = subprocess.run(words, env={**os.environ, **cluster}, check=True, capture_output=True, text=True)
    return done.stdout


def running(cluster, process, but=""):
    """The id of the job that runs, once there is one that is not `but`."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        found = slurm(cluster, "squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i").split()
        if found and found[0] != but:
            return found[0]
        time.sleep(0.1)
    raise AssertionError("no job runs within a minute")


def kill(name):
    """kill -9 of the process that a job runs, once asv has started."""
    mark = f"SLURM_JOB_ID={name}".encode()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found |= dict.fromkeys((folder / "cmdline").read_bytes().split(b"\0"), int(folder.name))
        if b"asv" in found:
            os.kill(found[b"submitit.core._submit"], signal.SIGKILL)
            return
        time.sleep(0.1)
    raise AssertionError(f"no process of job {name} within a minute")


def test_an_interrupted_fleet_finds_its_jobs_again_and_tells_two_kinds_of_machine_apart(repository, cluster):
    process = start(repository, cluster, *BIG, *SMALL, "--json", "found.json")
    job = running(cluster, process)
    about = slurm(cluster, "scontrol", "show", "job", job)
    assert "Features=big" in about
    assert "OverSubscribe=NO" in about, "a job has its node to itself"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "jobs go on in Slurm, and the same command waits for them" in err
    assert job in slurm(cluster, "squeue", "--noheader", "--array", "--format=%i").split()

    process = start(repository, cluster, *BIG, *SMALL, "--json", "found.json")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 0, out + err
    found = json.loads((repository / "found.json").read_text())
    assert [(entry["status"], entry["tries"]) for entry in found] == [("measured", 1)] * 2

    frame = results.load(repository)
    assert set(frame["machine"]) == {"big", "small"}
    assert set(frame["status"]) == {OK}
    assert (frame.groupby("machine").size() == 2 * 6).all()
    assert sorted(path.parent.name for path in (repository / ASV_RESULTS).glob("*/machine.json")) == ["big", "small"]


def test_a_job_that_slurm_kills_twice_is_a_row_with_its_reason(repository, cluster):
    process = start(repository, cluster, "--machine", "big:constraint=big", "--again")
    first = running(cluster, process)
    kill(first)
    second = running(cluster, process, but=first)
    slurm(cluster, "scancel", second)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out + err
    frame = results.load(repository)
    failed = frame[frame["status"] == FAILED]
    assert set(failed["machine"]) == {"big"}
    assert set(failed["commit"]) == {git(repository, "rev-parse", "HEAD")}
    # kill -9 is a failure like another; that a job was cancelled is Slurm's word.
    (reason,) = set(failed["reason"])
    assert reason.startswith("tried 2 times: the job ended without a result: its process is gone")
    assert "; then cancelled" in reason
    assert len(frame[frame["status"] == OK]) == 2 * 2 * 6, "what was measured before is untouched"


def test_what_slurm_refuses_is_said_in_its_words(repository, cluster):
    process = start(repository, cluster, "--machine", "huge:constraint=huge")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, out + err
    assert "fleet: Slurm refuses the jobs for huge" in err
    assert "Traceback" not in err
