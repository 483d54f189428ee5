"""The command line: exit statuses, help for a user's mistakes, files, interruptions, and how soon it answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from support import PYTHON, environment, plant, python, scratch_package, unplant, write_function

from autofn import cli, results
from autofn.records import FAILED, OK, RUNS, UNAVAILABLE, from_line, is_ceiling

WRONG = "from .reference import square\n\n\ndef apply(x):\n    return square(x) + 1\n"
UNABLE = 'raise NotImplementedError("planted: there is no kernel")\n'


def functions_in(folder):
    write_function(folder, "ant", cpp=UNABLE)
    write_function(folder, "bee", native=WRONG)


@pytest.fixture
def autofn(tmp_path, monkeypatch, capsys):
    """`autofn(*words)` runs the command in this process on planted Functions: (exit status, stdout, stderr)."""
    functions_in(tmp_path / "functions")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["autofn", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path / "functions")
        yield run
    unplant()


def runs():
    return sorted(path.name for path in RUNS.glob("*")) if RUNS.exists() else []


def cases():
    """The results of Functions, without what the machine reaches."""
    found = results.load()
    return found[~is_ceiling(found["function"])]


# Exit status 0: fine


def test_list_names_functions_variants_and_why_one_cannot_run(autofn):
    status, out, _ = autofn("list")
    assert status == 0
    for word in ("ant", "bee", "y = x * x", "python", "native", "tiny", "float64"):
        assert word in out
    assert "cpp cannot run here: planted: there is no kernel" in out


def test_list_as_json_is_json(autofn):
    status, out, _ = autofn("list", "--json", "ant")
    assert status == 0
    (found,) = json.loads(out)
    assert found["function"] == "ant"
    assert found["variants"] == {
        "eager": {"unavailable": None}, "python": {"unavailable": None},
        "cpp": {"unavailable": "planted: there is no kernel"},
    }  # fmt: skip
    assert found["workloads"]["tiny"] == {"n": 6}
    assert found["auto"] == {"float32": [[0, "python"]], "float64": [[0, "python"]]}
    assert "compile" in found["without"]


def test_check_of_what_is_right_ends_with_0_and_leaves_its_records(autofn):
    status, out, _ = autofn("check", "ant")
    assert status == 0
    assert "n/a ant (cpp): planted: there is no kernel" in out
    assert re.search(r"\d+ checks, 0 errors, 0 warnings", out)
    (name,) = runs()
    assert re.fullmatch(r"check-\d{8}T\d{6}-[0-9a-f]+-[0-9a-f]{8}\.jsonl", name)
    found = results.load()
    assert set(found["source"]) == {"check"}
    assert set(found["status"]) == {OK, UNAVAILABLE}
    assert found["run"].nunique() == 1


def test_bench_prints_every_phase_and_leaves_times_and_bytes(autofn):
    status, out, _ = autofn("bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny")
    assert status == 0
    for word in (
        "ant tiny float32",
        "eager",
        "python",
        "forward_backward",
        "n/a",
        "planted: there is no kernel",
        "0 B",
    ):
        assert word in out
    found = cases()
    assert set(found["workload"]) == {"tiny"}
    assert (found[(found["metric"] == "time_s") & (found["status"] == OK)]["value"] > 0).all()
    assert set(found["phase"]) == {"forward", "backward", "forward_backward"}


def test_only_what_was_asked_for_is_measured_with_the_baseline(autofn):
    words = ["--quick", "--budget", "0.01", "-w", "small", "--dtype", "float64", "-v", "python", "--phase", "inference"]
    assert autofn("bench", "bee", *words)[0] == 0
    times = cases().query("metric == 'time_s'")
    assert set(map(tuple, times[["function", "variant", "workload", "dtype", "phase"]].to_numpy())) == {
        ("bee", variant, "small", "float64", "inference") for variant in ("eager", "python")
    }


# Exit status 1: a finding


def test_a_finding_ends_with_1_and_is_told(autofn):
    status, out, _ = autofn("check", "bee", "--dtype", "float32", "--select", "value")
    assert status == 1
    assert "error value: bee (native) tiny float32: output 0" in " ".join(out.split())
    assert "checks, 2 errors" in out


# Exit status 2: misuse

MISUSE = {
    "list ont": "there is no Function 'ont'; did you mean ant",
    "list --device gpu": "there is no device 'gpu'; did you mean cpu",
    "check ont": "there is no Function 'ont'; did you mean ant",
    "check -v pyton": "there is no variant 'pyton'; did you mean python",
    "check --dtype float23": "there is no dtype 'float23'; did you mean float32",
    "check --device cdua": "there is no device 'cdua'; did you mean cuda",
    "choose ont": "there is no Function 'ont'; did you mean ant",
    "bench ont": "there is no Function 'ont'; did you mean ant",
    "bench -v pyton": "there is no variant 'pyton'; did you mean python",
    "bench -w tinny": "there is no workload 'tinny'; did you mean tiny",
    "bench --dtype float23": "there is no dtype 'float23'; did you mean float32",
    "bench --device cdua": "there is no device 'cdua'; did you mean cuda",
    "bench --phase bakward": "there is no phase 'bakward'; did you mean backward",
    "bench --budget 0": "--budget: must be above 0 seconds, got 0",
    "bench --budget nan": "--budget: must be above 0 seconds, got nan",
    "bench --threads 100000": "threads: must be between 1 and",
    "bench --threads 0": "threads: must be between 1 and",
    "bench --allocator jemalloc": "--allocator: must be settled or stock, got 'jemalloc'",
    "bench --budget soon": "Invalid value for '--budget'",
    "bench --colour": "No such option",
    "bnech": "No such command 'bnech'",
}


@pytest.mark.parametrize("words", MISUSE)
def test_a_mistake_ends_with_2_and_a_sentence_and_leaves_nothing(autofn, words):
    status, out, err = autofn(*words.split())
    assert status == 2
    assert MISUSE[words] in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in out + err
    assert runs() == []


def test_a_file_that_cannot_be_written_is_a_sentence_and_the_run_is_kept(autofn, tmp_path):
    status, _, err = autofn("bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny", "--json", str(tmp_path))
    assert status == 2
    assert str(tmp_path) in err
    assert "Traceback" not in err
    assert len(runs()) == 1
    assert "unfinished" not in runs()[0]


def test_a_defect_is_a_traceback_and_neither_a_mistake_nor_a_finding(autofn, tmp_path, monkeypatch, capsys):
    write_function(tmp_path / "functions", "cat", declaration="{}['planted']")
    monkeypatch.setattr(sys, "argv", ["autofn", "list"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 3
    assert "KeyError: 'planted'" in capsys.readouterr().err


def test_a_variant_that_cannot_be_loaded_is_listed_and_checked_with_its_reason(autofn, tmp_path):
    write_function(tmp_path / "functions", "cat", native="1 / 0", cpp="applly = abs")
    status, out, _ = autofn("list", "cat")
    assert status == 0
    assert "ZeroDivisionError" in out
    status, out, _ = autofn("check", "cat", "--dtype", "float32")
    assert status == 1
    assert "must export `apply`" in " ".join(out.split())


# Exit status 3: could not measure


@pytest.mark.parametrize("words", [["check", "ant", "-v", "cpp"], ["check", "ant", "--device", "cuda"]])
def test_a_check_of_what_cannot_run_ends_with_3(autofn, words):
    status, out, _ = autofn(*words)
    assert status == 3
    assert "n/a" in out


def test_a_bench_of_what_cannot_run_ends_with_3(autofn):
    status, out, _ = autofn("bench", "ant", "--quick", "-w", "tiny", "--device", "cuda")
    assert status == 3
    assert "no CUDA device" in out


def test_without_verdicts_nothing_is_chosen_and_that_ends_with_3(autofn, tmp_path):
    assert autofn("bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny")[0] == 0
    status, _, err = autofn("choose", "ant")
    assert status == 3
    assert "ant: no verdicts below .; run `autofn check ant` and `autofn bench ant`" in err
    assert not (tmp_path / "functions" / "ant" / "choice.json").exists()


# Files


@pytest.mark.parametrize("command", [["check", "ant"], ["bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny"]])
def test_the_json_file_holds_the_records_of_the_run(autofn, tmp_path, command):
    target = tmp_path / "new" / "out.json"
    assert autofn(*command, "--json", str(target))[0] == 0
    listed = [from_line(json.dumps(entry)) for entry in json.loads(target.read_text())]
    (name,) = runs()
    # The file is in the order of the checks, the journal in that in which they were through.
    written = [from_line(line) for line in (RUNS / name).read_text().splitlines()]
    assert sorted(listed, key=str) == sorted(written, key=str)


# Interruptions


@pytest.fixture
def scratch(tmp_path):
    """A copy of the package with planted Functions, to run in processes of its own; the folder to run them in."""
    functions_in(scratch_package(tmp_path / "package"))
    (tmp_path / "work").mkdir()
    return tmp_path


def start(scratch, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "autofn", *words],
        cwd=scratch / "work", env=environment(scratch / "package"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Where the tests run in the background, Ctrl-C is ignored, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def interrupt_after_first_group(scratch, number, *words):
    process = start(scratch, *words)
    folder = scratch / "work" / RUNS
    end = time.monotonic() + 60
    # The ceilings come first; a signal before the first group would meet torch's imports, which may swallow it.
    while not any('"function": "ant"' in path.read_text() for path in folder.glob("*.unfinished.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    (journal,) = folder.glob("*")
    assert journal.name.endswith(".unfinished.jsonl"), err
    return process.returncode, err, journal.read_text()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_bench_goes_on_where_it_was(scratch, number, status):
    words = ["bench", "ant", "--quick", "--budget", "3"]
    got, err, before = interrupt_after_first_group(scratch, number, *words)
    assert got == status
    assert "Traceback" not in err
    if number == signal.SIGINT:
        assert "bench and check go on from there" in err
    first = [from_line(line) for line in before.splitlines()]
    assert {record.workload for record in first if record.function == "ant"} < {"tiny", "small", "large"}

    process = start(scratch, *words)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    (path,) = (scratch / "work" / RUNS).glob("*")
    after = [from_line(line) for line in path.read_text().splitlines()]
    assert after[: len(first)] == first, "what was done is not measured again"
    assert {record.run for record in after} == {first[0].run}
    assert {record.workload for record in after} == {"tiny", "small", "large"}
    assert all(f"ant {workload} float32" in out for workload in ("tiny", "small", "large"))


def test_another_command_does_not_go_on_with_the_interrupted_one(scratch):
    interrupt_after_first_group(scratch, signal.SIGKILL, "bench", "ant", "--quick", "--budget", "3")
    process = start(scratch, "bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(list((scratch / "work" / RUNS).glob("*"))) == 2


def test_after_the_code_has_changed_an_interrupted_check_starts_anew(autofn, tmp_path):
    assert autofn("check", "bee", "-v", "native", "--dtype", "float32")[0] == 1
    (name,) = runs()
    # As if it had been interrupted after its last record: found again by the same command...
    found = cli.save.resumable("check", "planted")
    os.replace(RUNS / name, found.journal.path)
    assert len(cli.save.resumable("check", "planted").done) > 0
    # ...but not once the fault is repaired, though nothing is committed.
    (tmp_path / "functions" / "bee" / "native.py").write_text(PYTHON)
    assert cli.save.resumable("check", "planted").done == []


# How soon it answers


def test_help_says_what_there_is_without_loading_torch(scratch):
    code = (
        "import sys; sys.argv = ['autofn', '--help']\nfrom autofn.cli import main\n"
        "try: main()\nfinally: print(sorted(sys.modules))"
    )
    found = python("-c", code, cwd=scratch / "work", package=scratch / "package")
    assert found.returncode == 0
    for command in ("list", "check", "bench", "choose", "trace", "report"):
        assert command in found.stdout
    modules = found.stdout.splitlines()[-1]
    assert "'autofn.cli.bench'" in modules
    for heavy in ("torch", "pandas", "numpy", "triton", "asv"):
        assert f"'{heavy}'" not in modules


@pytest.mark.measured
def test_help_answers_within_half_a_second(scratch):
    def once():
        begin = time.perf_counter()
        assert python("-m", "autofn", "--help", cwd=scratch / "work", package=scratch / "package").returncode == 0
        return time.perf_counter() - begin

    assert min(once() for _ in range(6)) < 0.5


@pytest.mark.measured
def test_importing_the_package_adds_next_to_nothing_to_importing_torch(scratch):
    code = (
        "import torch, time, sys; begin = time.perf_counter(); import autofn; print(time.perf_counter() - begin);"
        "print([name for name in ('pandas', 'torch._dynamo', 'torch._inductor', 'autofn._C') if name in sys.modules])"
    )

    def once():
        seconds, loaded = python("-c", code, cwd=scratch / "work", package=scratch / "package").stdout.splitlines()
        assert loaded == "[]"
        return float(seconds)

    assert min(once() for _ in range(3)) < 0.05


def test_listing_the_registry_loads_no_toolchain(scratch):
    code = (
        "import sys; from autofn import registry\nfor name in registry.names(): registry.variants(name)\n"
        "print([name for name in ('torch._dynamo', 'torch._inductor', 'triton', 'autofn._C') if name in sys.modules])"
    )
    found = python("-c", code, cwd=scratch / "work", package=scratch / "package")
    assert found.stdout == "[]\n", found.stderr


def test_the_version_is_printed(autofn):
    status, out, _ = autofn("--version")
    assert status == 0
    assert re.fullmatch(r"autofn \d+\.\d+\.\d+\n", out)


def test_without_a_command_there_is_help(autofn):
    _, out, err = autofn()
    assert "check" in out + err


def test_a_status_of_failed_is_never_hidden(autofn, tmp_path):
    write_function(tmp_path / "functions", "cow", native="def apply(x):\n    raise RuntimeError('planted')\n")
    status, out, _ = autofn("bench", "cow", "--quick", "--budget", "0.01", "-w", "tiny")
    assert status == 1
    assert f"cow (native) {FAILED}: RuntimeError: planted" in out
