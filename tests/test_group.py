"""A group: an arm that breaks costs its own rows, each with the reason, and the others are measured all the same."""

from __future__ import annotations

import os

import pytest
import torch
from support import make_spec, scratch_package, square, write_function

from autofn import compiled
from autofn.compiled import graph
from autofn.measure import inprocess, isolated, processes
from autofn.measure.lockstep import Effort
from autofn.measure.rows import NEEDS_A_PROCESS, Arm, Group, Rows
from autofn.records import FAILED, OK, UNAVAILABLE
from autofn.terms import PHASES

GROUP = Group("square", "tiny", "float32", "cpu")


class Ticking:
    """A clock that a sample sees go on, so that no sample is empty."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 1e-4
        return self.now


def in_process(arms, phases=PHASES, spec=None):
    """Records by variant. arms: what each variant is, an exception to raise when it is loaded or a callable."""

    def load(variant):
        if isinstance(arms[variant], Exception):
            raise arms[variant]
        return arms[variant]

    rows = Rows(GROUP, phases, {"run": "r"})
    asked = [Arm(name, compiled=name.startswith(("compile", "fused"))) for name in arms]
    found = list(inprocess.measure(spec or make_spec(), rows, asked, load, 1e-3, Ticking()))
    assert len(found) == len(arms) * rows.per_arm
    assert all(record.run == "r" for record in found)
    return {name: [record for record in found if record.variant == name] for name in arms}


def statuses(records):
    """The statuses, but for what one process cannot measure."""
    return {record.status for record in records if record.reason != NEEDS_A_PROCESS}


def test_every_arm_has_its_bytes_and_its_times_with_samples_paired_by_round():
    found = in_process({"eager": square, "python": square})
    for records in found.values():
        assert statuses(records) == {OK}
        assert {r.metric for r in records if r.unit == "bytes" and r.status == OK} == {"saved_bytes", "saved_new_bytes"}
        times = {r.phase: r for r in records if r.metric == "time_s"}
        assert set(times) == set(PHASES)
        for time in times.values():
            assert time.low <= time.value <= time.high
            assert min(time.samples) > 0
            assert (time.processes, time.unit) == (1, "s")
    rounds = {(r.phase, len(r.samples)) for rows in found.values() for r in rows if r.metric == "time_s"}
    assert len(rounds) == len(PHASES)


def test_an_arm_that_cannot_run_is_not_available_with_its_reason():
    found = in_process({"eager": square, "cpp": NotImplementedError("square (cpp): no compiler"), "python": square})
    assert statuses(found["cpp"]) == {UNAVAILABLE}
    assert {record.reason for record in found["cpp"]} == {"no compiler"}
    assert statuses(found["eager"]) == statuses(found["python"]) == {OK}


@pytest.mark.parametrize("error", [RuntimeError("planted"), ImportError("planted"), AssertionError("planted")])
def test_an_arm_that_cannot_be_loaded_for_another_reason_is_failed(error):
    found = in_process({"eager": square, "cpp": error})
    assert statuses(found["cpp"]) == {FAILED}
    (reason,) = {record.reason for record in found["cpp"]}
    assert reason.startswith(f"{type(error).__name__}: planted (")
    assert "test_group.py:" in reason
    assert statuses(found["eager"]) == {OK}


def breaking_at(call, where):
    """The square, whose `call`-th forward or backward raises."""
    calls = {"forward": 0, "backward": 0}

    def count(phase):
        calls[phase] += 1
        if phase == where and calls[phase] >= call:
            raise RuntimeError(f"{where} {call}")

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            count("forward")
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            count("backward")
            return 2 * ctx.saved_tensors[0] * grad_output

    return Square.apply


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("call", [*range(1, 12), 30, 60, 120])
def test_an_arm_that_raises_at_any_call_is_failed_and_takes_nobody_along(where, call):
    found = in_process({"eager": square, "python": breaking_at(call, where), "cpp": square})
    failed = [record for record in found["python"] if record.status == FAILED]
    assert failed
    assert statuses(found["python"]) <= {OK, FAILED}
    assert all(f"RuntimeError: {where} {call}" in record.reason for record in failed)
    assert all(record.value is None and record.samples == () for record in failed)
    assert statuses(found["eager"]) == statuses(found["cpp"]) == {OK}


def test_a_backward_that_is_not_implemented_is_not_available():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

    found = in_process({"eager": square, "python": Square.apply})
    assert statuses(found["python"]) == {UNAVAILABLE}
    assert statuses(found["eager"]) == {OK}


@pytest.fixture
def compiler():
    compiled.forget()
    yield
    compiled.forget()


def test_a_variant_said_to_be_compiled_that_is_not_is_failed(compiler):
    found = in_process({"eager": square, "compile": graph(square), "fused": square}, ["forward"])
    assert statuses(found["fused"]) == {FAILED}
    assert "no graph was compiled" in found["fused"][0].reason
    (time,) = (record for record in found["compile"] if record.metric == "time_s")
    assert time.detail["compiled"]["graphs"] >= 1
    assert statuses(found["eager"]) == {OK}


def test_what_was_compiled_before_does_not_count_for_this_group(compiler):
    ready = graph(square)
    ready(torch.ones(6, requires_grad=True))
    found = in_process({"eager": square, "compile": ready}, ["forward"])
    assert statuses(found["compile"]) == {OK}


# The same by arms in processes of their own, where an arm may do worse than raise.

SEGFAULT = """
import os, signal

def apply(x):
    os.kill(os.getpid(), signal.SIGSEGV)
"""
EXIT = """
import os

def apply(x):
    os._exit(7)
"""
HANG = """
import time

def apply(x):
    time.sleep(600)
"""
LATE = """
import os, signal
calls = 0

def apply(x):
    global calls
    calls += 1
    if calls > 60:
        os.kill(os.getpid(), signal.SIGSEGV)
    return x * x
"""
RAISE = """
def apply(x):
    raise ZeroDivisionError("planted")
"""
UNABLE = """
raise NotImplementedError("planted (cpp): there is no kernel")
"""
NOT_COMPILED = """
def apply(x):
    return x * x
"""
FAULTS = {
    "native_segfault": (SEGFAULT, FAILED, "killed by SIGSEGV"),
    "native_exit": (EXIT, FAILED, "exit status 7"),
    "python_hang": (HANG, FAILED, "no answer within"),
    "python_late": (LATE, FAILED, "killed by SIGSEGV"),
    "python_raise": (RAISE, FAILED, "ZeroDivisionError: planted"),
    "fused": (NOT_COMPILED, FAILED, "no graph was compiled"),
    "cpp": (UNABLE, UNAVAILABLE, "there is no kernel"),
}


@pytest.fixture(scope="module")
def isolated_rows(tmp_path_factory):
    """All faults in one group of processes, once for the tests below."""
    folder = tmp_path_factory.mktemp("planted")
    write_function(scratch_package(folder), "planted", **{name: text for name, (text, _, _) in FAULTS.items()})
    build = processes.Build(environment=(("PYTHONPATH", str(folder)),))
    rows = Rows(Group("planted", "tiny", "float32", "cpu"), ["forward", "backward"])
    arms = [Arm(name, compiled=name == "fused") for name in ("eager", "python", *FAULTS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autofn.measure.lockstep.COMPILE_S", 4.0)
        patch.setattr("autofn.measure.lockstep.ANSWER_S", 4.0)
        with processes.Processes() as running:
            found = list(isolated.measure(running, build, rows, arms, Effort(1.0, rounds=5, servers=4)))
            pids = [server.process.pid for server in running.servers.values()]
    assert len(found) == len(arms) * rows.per_arm
    return found, pids


@pytest.mark.parametrize("variant", FAULTS)
def test_an_arm_that_crashes_hangs_or_cannot_run_says_so_in_all_of_its_rows(isolated_rows, variant):
    _, status, words = FAULTS[variant]
    mine = [record for record in isolated_rows[0] if record.variant == variant]
    assert statuses(mine) == {status}
    assert all(words in record.reason for record in mine), mine[0].reason


@pytest.mark.parametrize("variant", ["eager", "python"])
def test_the_arms_beside_those_are_measured_in_several_processes(isolated_rows, variant):
    mine = [record for record in isolated_rows[0] if record.variant == variant]
    assert statuses(mine) == {OK}
    times = [record for record in mine if record.metric == "time_s"]
    assert {record.phase for record in times} == {"forward", "backward"}
    for time in times:
        assert time.processes == len(time.detail["generations"]) == sum(time.detail["servers"])
        assert len(time.detail["servers"]) == 4
        assert len(set(time.detail["servers"])) == 1, "every server gives as many generations"
        assert len(time.samples) == sum(time.detail["generations"])
        assert time.low <= time.value <= time.high
    base = [r for r in isolated_rows[0] if r.variant == "eager" and r.metric == "time_s"]
    assert all(len(r.detail["again"]) == len(r.samples) for r in base)


def test_the_processes_end_with_their_coordinator(isolated_rows):
    assert isolated_rows[1]
    for pid in isolated_rows[1]:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)
