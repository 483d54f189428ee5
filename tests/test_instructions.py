"""Instructions a call: what a Callgrind file says, why there may be no count, and counts of planted Functions."""

from __future__ import annotations

import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import plant, scratch_package, unplant, write_function

from autofn import cli, results
from autofn.measure import instructions
from autofn.measure.instructions import Bare, Counted, Valgrind, count, records_of, total
from autofn.measure.processes import Build
from autofn.measure.rows import Group, Rows
from autofn.records import FAILED, OK, UNAVAILABLE, Key
from autofn.terms import PHASES

GROUP = Group("ant", "tiny", "float32", "cpu")
EAGER, COMPILE, PYTHON = (GROUP.key(variant) for variant in ("eager", "compile", "python"))
DUMP = """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 7
cmd:  python totals: 5
part: 2


desc: I1 cache: \n\
desc: Timerange: Basic block 100 - 300
desc: Trigger: Client Request

positions: line
events: Ir
summary: 471802


ob=(37) /usr/lib/libc.so.6
fl=(633) ???
fn=(12664) malloc
0 1440
cfn=(12665) free
calls=20 3281 \n\
0 470362

totals: 471802
"""


def test_the_count_of_a_dump_is_its_total():
    assert total(DUMP) == 471_802
    assert total(DUMP.replace("471802", "0")) == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must have the lines"),
        ("totals: 12\n", "must have the lines"),
        (DUMP[: DUMP.index("\ntotals:")], "must have the lines"),
        (DUMP.replace("events: Ir", "events: Ir Dr Dw"), "must count Ir alone, got Ir Dr Dw"),
    ],
    ids=["empty", "of another program", "cut short", "of other events"],
)
def test_a_file_that_does_not_say_it_is_an_error(text, says):
    with pytest.raises(ValueError, match=says):
        total(text)


@pytest.mark.parametrize(
    ("bare", "compiled", "counts"),
    [
        (Bare("AVX2", False), True, True),
        (Bare("DEFAULT", False), True, True),
        (Bare("AVX512", True), False, False),
        (Bare("AVX512", True), True, False),
        # ATEN_CPU_CAPABILITY=avx2 keeps PyTorch's kernels from AVX-512, but not the compiler.
        (Bare("AVX2", True), False, True),
        (Bare("AVX2", True), True, False),
    ],
    ids=str,
)
def test_what_is_timed_can_be_counted_where_it_holds_no_avx512(bare, compiled, counts):
    assert bare.counts(compiled) is counts


def test_without_valgrind_every_count_is_na_with_the_way_out(monkeypatch):
    monkeypatch.setenv("PATH", "")
    seen = []
    found = count(Build(), [EAGER, PYTHON], PHASES, progress=lambda *step: seen.append(step))
    assert found == {
        (key, phase): Counted(status=UNAVAILABLE, reason=instructions.NO_VALGRIND)
        for key in (EAGER, PYTHON)
        for phase in PHASES
    }
    assert "apt install valgrind" in instructions.NO_VALGRIND
    assert seen[0] == (0, 8, "ant-eager-tiny-float32-cpu forward")
    assert seen[-1] == (8, 8, "")


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """`fake(script)`: `valgrind` on the PATH is this shell script, on a machine with AVX-512."""

    def put(script):
        path = tmp_path / "bin" / "valgrind"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    monkeypatch.setattr(Valgrind, "bare", Bare("AVX512", True))
    return put


def test_a_compiled_variant_is_na_where_the_machine_has_avx512(fake):
    fake("exit 1")
    found = count(Build(), [COMPILE, GROUP.key("fused")], ["forward"])
    for counted in found.values():
        assert counted.status == UNAVAILABLE
        assert counted.reason.startswith("Valgrind runs AVX2 and no AVX-512: torch.compile makes other code")
        assert counted.reason.endswith("(AVX512)")


def test_another_device_is_na(fake):
    fake("exit 1")
    key = Key("ant", "eager", "tiny", "float32", "cuda")
    assert count(Build(), [key], ["forward"])[key, "forward"] == Counted(
        status=UNAVAILABLE, reason="counts the instructions of the CPU, not of cuda"
    )


def test_a_valgrind_that_does_not_start_is_started_once_and_its_word_is_the_reason(fake, tmp_path):
    log = (
        'for word in "$@"; do case $word in --log-file=*) echo "planted: no tool" > "${word#--log-file=}";; esac; done'
    )
    fake(f"echo started >> {tmp_path}/starts; {log}; exit 1")
    found = count(Build(), [EAGER, PYTHON], ["forward", "backward"])
    assert (tmp_path / "starts").read_text() == "started\n"
    assert len(found) == 4
    for counted in found.values():
        assert counted.status == FAILED
        assert counted.reason.startswith("Valgrind did not start: ")
        assert counted.reason.endswith("planted: no tool")


def test_an_interrupt_ends_valgrind(fake, tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    fake(f"echo $$ > {pid}; exec sleep 600")

    def interrupt(*_, **__):
        while not (pid.exists() and pid.read_text().strip()):
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(instructions.Listener, "accept", interrupt)
    with pytest.raises(KeyboardInterrupt):
        count(Build(), [EAGER], ["forward"])
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_count_becomes_a_record_with_its_samples_its_code_and_its_conditions():
    rows = Rows(GROUP, ["forward"], {"run": "r", "threads": 1})
    detail = {"cpu_capability": {"counted": "AVX2", "timed": "AVX512"}}
    counted = {
        (EAGER, "forward"): Counted(101.0, (100.0, 101.0, 103.0), 20, detail=detail),
        (PYTHON, "forward"): Counted(status=FAILED, reason="ValueError: planted"),
    }
    good, bad = records_of(rows, ["eager", "python"], counted)
    assert (good.variant, good.phase, good.metric, good.unit) == ("eager", "forward", "instructions", "count")
    assert (good.value, good.samples, good.number, good.processes) == (101.0, (100.0, 101.0, 103.0), 20, 1)
    assert (good.status, good.protocol, good.detail) == (OK, instructions.PROTOCOL, detail)
    assert (bad.value, bad.status, bad.reason) == (None, FAILED, "ValueError: planted")
    assert {(record.run, record.threads) for record in (good, bad)} == {("r", 1)}


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """`bench(*words)` benches a planted Function in this process and returns what was printed."""
    write_function(tmp_path / "functions", "ant")
    plant(monkeypatch, tmp_path / "functions")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "240")

    def run(*words):
        words = ["autofn", "bench", "ant", "--quick", "--budget", "0.01", "-w", "tiny", *words]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    yield run
    monkeypatch.undo()
    unplant()


def planted_count(build, keys, phases, number=20, progress=lambda *step: None):
    assert build.threads == 1
    return {
        (key, phase): Counted(1234567.4, (1234567.4,), number)
        if key == EAGER
        else Counted(status=UNAVAILABLE, reason="planted: no count")
        for key in keys
        for phase in phases
    }


def test_bench_counts_only_when_asked(bench, monkeypatch):
    monkeypatch.setattr(instructions, "count", planted_count)
    assert "instructions" not in bench()
    found = results.load()
    assert "instructions" not in set(found["metric"])


def test_bench_prints_counts_beside_the_times_and_keeps_both_in_one_run(bench, monkeypatch):
    monkeypatch.setattr(instructions, "count", planted_count)
    out = bench("--instructions", "--phase", "forward", "--phase", "inference")
    assert "instructions: forward / inference" in out
    assert "1,234,567 / 1,234,567" in out
    assert "n/a / n/a" in out
    assert "instructions (python) n/a: planted: no count" in out
    found = results.load()
    assert found["run"].nunique() == 1
    counts = found[found["metric"] == "instructions"]
    assert set(zip(counts["variant"], counts["phase"], strict=True)) == {
        (variant, phase) for variant in ("eager", "python") for phase in ("forward", "inference")
    }
    assert (counts["unit"] == "count").all()
    assert (counts["version"] == "1").all()


def test_what_an_interrupted_run_has_counted_is_not_counted_again(bench, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(instructions, "count", interrupted)
    with pytest.raises(AssertionError):
        bench("--instructions")
    calls = []

    def counts(build, keys, *words, **options):
        calls.append([key.variant for key in keys])
        return planted_count(build, keys, *words, **options)

    monkeypatch.setattr(instructions, "count", counts)
    bench("--instructions")
    assert calls == [["eager", "python"]]
    assert results.load()["run"].nunique() == 1


TWICE = '''"""The formula, twice."""

from .reference import square


def apply(x):
    square(x)
    return square(x)
'''
RAISES = '''"""Raises."""


def apply(x):
    raise ValueError("planted")
'''
LACKS = '''"""Cannot run."""


def apply(x):
    raise NotImplementedError("planted: no tool")
'''
CRASHES = '''"""Ends the process."""

import os


def apply(x):
    os.abort()
'''


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.skipif(not shutil.which("valgrind"), reason="needs Valgrind")
def test_counts_are_true_and_repeat_and_a_case_that_fails_costs_itself_alone(tmp_path):
    functions = scratch_package(tmp_path)
    planted = {"python_twice": TWICE, "python_raises": RAISES, "python_lacks": LACKS, "python_crashes": CRASHES}
    write_function(functions, "ant", **planted)
    build = Build(environment=(("PYTHONPATH", str(tmp_path)),))
    key = {name: GROUP.key(name) for name in ("eager", "python", *planted)}
    # What fails first goes before what must be right after it; what crashes comes last, for each costs a start.
    first = [key[name] for name in ("python_raises", "python_lacks", "eager", "python", "python_twice")]

    second = [key[name] for name in ("python_twice", "python", "eager", "python_crashes")]
    with ThreadPoolExecutor(2) as pool:
        found, again = pool.map(lambda keys: count(build, keys, PHASES), (first, second))

    for phase in PHASES:
        assert found[key["python_raises"], phase] == Counted(status=FAILED, reason="ValueError: planted")
        assert found[key["python_lacks"], phase] == Counted(status=UNAVAILABLE, reason="planted: no tool")
        for name in ("eager", "python", "python_twice"):
            counted = found[key[name], phase]
            assert counted.status == OK, counted.reason
            assert counted.value > 1000
            assert max(counted.samples) / min(counted.samples) < 1.03
            assert counted.detail["cpu_capability"]["counted"] in instructions.RUNS

    def ratio(phase):
        return found[key["python_twice"], phase].value / found[key["eager"], phase].value

    # The call of a Python function more, and one to be left out less.
    assert ratio("forward") == pytest.approx(2, rel=0.05)
    assert ratio("inference") == pytest.approx(2, rel=0.05)
    # The graph of the first square has gone by then.
    assert ratio("backward") == pytest.approx(1, rel=0.02)
    for phase in PHASES:
        reason = "the process in Valgrind was lost in forward: killed by SIGABRT"
        assert again[key["python_crashes"], phase] == Counted(status=FAILED, reason=reason)
        for name in ("eager", "python", "python_twice"):
            # What ran before in the process moves a count by up to 2 %.
            assert again[key[name], phase].value == pytest.approx(found[key[name], phase].value, rel=0.05)
