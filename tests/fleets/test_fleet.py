"""`autofn fleet` on this machine, for real: real commits, real jobs, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support import commit, environment, git, python, scratch_repository

from autofn import results
from autofn.fleets import cells, is_there, job
from autofn.fleets.run import CELLS
from autofn.records import ASV_JOURNAL, FAILED, OK, RUNS, UNAVAILABLE

pytestmark = pytest.mark.slow

SUITE = cells.Suite("glance", ("ant",))
WORDS = ["fleet", "--profile", "glance", "--function", "ant"]
BROKEN = "raise SystemExit('planted: no compiler for this')\n"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Three commits of a package with one Function: the last one does not build."""
    folder = scratch_repository(tmp_path_factory.mktemp("fleet") / "repository", "ant")
    source = folder / "autofn" / "functions" / "ant" / "python.py"
    source.write_text(f"{source.read_text()}# A comment.\n")
    commit(folder, "second")
    setup = (folder / "setup.py").read_text()
    (folder / "setup.py").write_text(BROKEN)
    commit(folder, "broken")
    (folder / "setup.py").write_text(setup)
    hashes = git(folder, "rev-list", "--reverse", "HEAD").split()
    return SimpleNamespace(folder=folder, hashes=hashes)


def variables(repository, **more):
    return environment(repository.folder, AUTOFN_NO_EXTENSION="1", HOME=str(repository.folder), **more)


def start(repository, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "autofn", *WORDS, *words], cwd=repository.folder, env=variables(repository),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Where the tests run in the background, Ctrl-C is ignored, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def cell_folder(repository, number):
    """The folder of the job of a commit on this machine."""
    (found,) = (repository.folder / CELLS).glob(f"{repository.hashes[number][:12]}-*")
    return found


def job_process(folder, process, program, but=()):
    """The process of a job that runs `program`, once there is one that is not among `but`."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        for pid in set(job.processes_of(str(folder))).difference(but):
            with suppress(OSError):
                if program in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        time.sleep(0.02)
    raise AssertionError(f"no process of {program} within a minute")


def wait_for_cell(repository, number, process):
    end = time.monotonic() + 60
    pattern = f"{repository.hashes[number][:12]}-*"
    while not list((repository.folder / CELLS).glob(f"{pattern}/asv.conf.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)
    return cell_folder(repository, number)


def kill_job(repository, number, process, but=()):
    """kill -9 of the job's own process while asv runs; the ids of both. but: those of a job before."""
    folder = wait_for_cell(repository, number, process)
    ids = [job_process(folder, process, program, but) for program in (b"submitit.core._submit", b"asv")]
    os.kill(ids[0], signal.SIGKILL)
    return ids


def test_jobs_that_are_killed_are_tried_once_more_and_then_are_rows(repository):
    first, second, broken = repository.hashes
    process = start(repository, broken, second, first, "--json", "found.json")
    killed = kill_job(repository, 1, process)
    kill_job(repository, 0, process)
    # One that has ended may lie there, without memory, until its new parent asks for its status.
    left = job.processes_of(str(cell_folder(repository, 1)))
    assert killed[1] not in left, "what a killed job leaves behind is ended before the next one"
    kill_job(repository, 1, process, but=killed)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err

    found = {entry["cell"]["commit"]: entry for entry in json.loads((repository.folder / "found.json").read_text())}
    assert (found[first]["status"], found[first]["tries"]) == ("measured", 2)
    assert (found[second]["status"], found[second]["tries"]) == ("failed", 2)
    assert (found[broken]["status"], found[broken]["tries"]) == ("failed", 0)
    assert found[second]["reason"].startswith("tried 2 times: the job ended without a result: its process is gone")
    assert "planted: no compiler for this" in found[broken]["reason"]
    assert not job.processes_of(str(cell_folder(repository, 1)))

    frame = results.load(repository.folder)
    rows = {name: frame[frame["commit"] == name] for name in repository.hashes}
    assert set(rows[first]["status"]) == {OK}
    assert set(rows[first]["metric"]) == {"time_s", "saved_bytes", "saved_new_bytes", "held_bytes"}
    assert len(rows[first]) == 2 * 6, "two variants, three phases and three counts of bytes, each once"
    for failed in (second, broken):
        assert set(rows[failed]["status"]) == {FAILED}
        assert set(rows[failed]["reason"]) == {found[failed]["reason"]}
        assert {"python", "eager"} <= set(rows[failed]["variant"])
        assert set(rows[failed]["machine"]) == set(rows[first]["machine"])


def test_an_interrupted_fleet_ends_its_job_and_the_same_command_goes_on(repository):
    first, second, _ = repository.hashes
    process = start(repository, first, second)
    folder = wait_for_cell(repository, 1, process)
    # The first measured cases are in the journal before asv has saved anything.
    end = time.monotonic() + 60
    while not any(path.stat().st_size for path in (folder / ASV_JOURNAL).rglob("*.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "the same command goes on" in err
    assert "Traceback" not in err
    assert not job.processes_of(str(folder))
    (journal,) = (folder / ASV_JOURNAL).rglob("*.jsonl")
    before = journal.read_text()

    process = start(repository, first, second)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert "2 jobs: 1 was there, 1 measured" in out
    (journal,) = (repository.folder / ASV_JOURNAL).glob(f"*/{second}/*.jsonl")
    assert journal.read_text().startswith(before), "what was measured is not measured again"
    frame = results.load(repository.folder)
    assert set(frame[frame["commit"] == second]["status"]) == {OK}, "its failure is no longer true"
    assert not folder.exists()


def test_a_second_fleet_at_the_same_time_is_refused(repository):
    process = start(repository, repository.hashes[0], "--again")
    wait_for_cell(repository, 0, process)
    try:
        done = python("-m", "autofn", *WORDS, cwd=repository.folder, HOME=str(repository.folder))
        assert done.returncode == 2
        assert f"another autofn fleet is at work here, process {process.pid} on" in done.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has the device")
def test_a_device_that_the_machine_lacks_is_na_and_no_failure(repository):
    process = start(repository, "--device", "cuda", repository.hashes[0])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3, out + err
    assert "n/a" in out
    frame = results.load(repository.folder)
    cuda = frame[frame["device"] == "cuda"]
    assert set(cuda["status"]) == {UNAVAILABLE}
    assert cuda["reason"].str.startswith("nothing could be measured on cuda").all()
    # Empty where this test runs alone.
    assert set(frame[(frame["device"] == "cpu") & (frame["commit"] == repository.hashes[0])]["status"]) <= {OK}


# Without a job


MISUSE = {
    "nowhere": "there is no revision 'nowhere' here",
    "HEAD..HEAD": "there is no commit in the range 'HEAD..HEAD'",
    "--machine epyc --machine xeon": "here there is one machine",
    "--machine epyc:constraint=epyc": "here there is one machine",
    "--machine epyc:constraint": "a machine is written NAME or NAME:OPTION=VALUE",
    "--machine ../epyc": "a machine is written NAME or NAME:OPTION=VALUE",
    "--device gpu": "there is no device 'gpu'; did you mean cpu",
    "--function ont": "there is no Function 'ont'; did you mean ant",
    "--profile quik": "there is no profile 'quik'; did you mean quick",
    "--engine pbs": "there is no engine 'pbs'",
    "--minutes 0": "minutes and nodes must be at least 1",
}


@pytest.mark.parametrize("words", MISUSE)
def test_a_mistake_is_a_sentence_and_starts_nothing(repository, words):
    before = sorted((repository.folder / CELLS).glob("*")), sorted((repository.folder / RUNS).glob("*"))
    done = python("-m", "autofn", "fleet", *words.split(), cwd=repository.folder, HOME=str(repository.folder))
    assert done.returncode == 2, done.stdout + done.stderr
    assert MISUSE[words] in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert before == (sorted((repository.folder / CELLS).glob("*")), sorted((repository.folder / RUNS).glob("*")))


@pytest.mark.parametrize("module", ["submitit", "asv"])
def test_without_what_a_fleet_needs_one_line_says_what_to_install(repository, module):
    code = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['autofn', 'fleet']\n"
    code += "from autofn.cli import main; main()"
    done = python("-c", code, cwd=repository.folder, HOME=str(repository.folder))
    assert done.returncode == 2
    assert done.stderr.strip() == f"autofn: fleet: {module} is not installed: pip install 'autofn[fleet]'"


def test_a_matrix_goes_commit_by_commit_over_machines_and_devices():
    machines = [cells.machine("epyc:constraint=epyc7763,partition=long"), cells.machine("h100:gres=gpu:h100:1")]
    assert machines[0].options == (("constraint", "epyc7763"), ("partition", "long"))
    assert machines[1].options == (("gres", "gpu:h100:1"),)
    found = cells.matrix(["a", "b"], machines, ["cpu", "cuda"])
    assert [(cell.commit, cell.machine.name, cell.device) for cell in found][:5] == [
        ("a", "epyc", "cpu"), ("a", "epyc", "cuda"), ("a", "h100", "cpu"), ("a", "h100", "cuda"), ("b", "epyc", "cpu"),
    ]  # fmt: skip
    assert len({cell.folder(SUITE) for cell in found}) == len(found) == 8


def test_a_range_is_its_first_parents_the_newest_first(repository):
    first, second, broken = repository.hashes
    assert cells.commits(repository.folder, [f"{first}..", first]) == [broken, second, first]


def test_what_is_there_on_one_device_or_of_one_function_is_not_there_on_another(repository):
    if not list((repository.folder / ".asv").glob("results/*/*.json")):
        pytest.skip("the test that measures was not run")
    (machine,) = {path.parent.name for path in (repository.folder / ".asv" / "results").glob("*/machine.json")}
    cell = cells.Cell(repository.hashes[0], cells.Machine(machine), "cpu")
    assert is_there(repository.folder, cell, SUITE)
    assert not is_there(repository.folder, cells.Cell(cell.commit, cell.machine, "cuda"), SUITE)
    assert not is_there(repository.folder, cell, cells.Suite("glance", ("ant", "bee")))
    assert not is_there(repository.folder, cells.Cell(cell.commit, cells.Machine("other"), "cpu"), SUITE)
