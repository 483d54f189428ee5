"""Traces are recorded with their phases, kernels and arrows, and moved into place whole."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest
import torch
from support import ROOT, python
from traces import FUNCTION, STEPS, events_in, files_below, linked, named, trace_in
from typer import Typer
from typer.testing import CliRunner

import autofn
from autofn import registry
from autofn.cli.trace import trace_command
from autofn.tracing import TraceSummary, files, load_summaries, operators, profiling, recording

# Dynamo itself looks at `.grad` of the tensors that it is given, as at any other attribute.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")

app = Typer()
app.command()(trace_command)


def test_every_variant_is_traced_or_says_why_not(recorded):
    _, found = recorded
    assert list(found) == [*(variant.name for variant in registry.variants(FUNCTION)), "all"]
    for name, summary in found.items():
        reason = None if name == "all" else registry.unavailable(FUNCTION, name)
        assert (summary.status, summary.reason) == (("n/a", reason) if reason else ("ok", ""))


def test_a_run_holds_its_phases_once_a_step(folders):
    for name, folder in folders.items():
        counts = pd.Series(
            [event["name"] for event in events_in(folder) if event.get("cat") == "cpu_op"]
        ).value_counts()
        for variant in [name] if name != "all" else folders.keys() - {"all"}:
            assert counts[f"{FUNCTION}/{variant}/forward"] == counts[f"{FUNCTION}/{variant}/backward"] == STEPS


def test_operators_are_a_table_of_profiled_times(folders):
    for folder in folders.values():
        table = pd.read_csv(folder / "operators.csv")
        assert list(table.columns) == list(operators.COLUMNS)
        assert set(table.phase) == {"forward", "backward"}
        assert set(table.clock) == {"profiled"}
        assert (table.calls % STEPS == 0).all()
        assert (table.self_time_s >= -1e-8).all()  # the trace has nanoseconds
        assert (table.self_time_s <= table.total_time_s + 1e-12).all()
        assert (table.low_s <= table.self_time_s / STEPS + 1e-9).all()
        assert (table.self_time_s / STEPS <= table.high_s + 1e-9).all()
        assert (table.kernel_time_s <= table.self_time_s + 1e-8).all()
        assert table.launches.sum() > 0
        # Self times add up to the phases: nothing is counted twice.
        labels = table.name.str.fullmatch(rf"{FUNCTION}/\w+/(forward|backward)")
        assert table.self_time_s.sum() == pytest.approx(table.total_time_s[labels].sum())
        assert "profiled" in (folder / "operators.txt").read_text()


def test_compiled_variants_show_their_kernels_by_name(recorded):
    _, found = recorded
    for name in [*named("compile"), *named("fused")]:
        if found[name].status == "n/a":
            pytest.skip(found[name].reason)
        for phase in ("forward", "backward"):
            kernels = found[name].kernels[phase]
            assert kernels
            assert all(kernel.startswith("cpp_") and launches >= 1 for kernel, launches in kernels.items())
            assert found["all"].kernels[f"{name}/{phase}"] == kernels
    for name in [*named("eager"), *named("python")]:
        assert found[name].kernels == {}


def test_an_arrow_leads_from_each_forward_to_its_backward(folders):
    for name, folder in folders.items():
        for variant in [name] if name != "all" else folders.keys() - {"all"}:
            assert linked(events_in(folder), variant) >= STEPS, f"{variant} in {name}"


def test_traces_of_three_steps_are_small(folders):
    for name, folder in folders.items():
        assert trace_in(folder).stat().st_size < (350 if name == "all" else 100) * 1024


def test_a_trace_names_no_folder_of_this_machine(folders):
    root = str(Path(autofn.__file__).parent.parent)
    for folder in folders.values():
        text = gzip.decompress(trace_in(folder).read_bytes()).decode()
        assert root not in text
        assert not re.search(r"/torchinductor_", text)


def test_summaries_come_back_and_a_damaged_one_is_named(recorded, tmp_path):
    out, found = recorded
    loaded = load_summaries(out)
    assert {summary["variant"] for summary in loaded} == {name for name, s in found.items() if s.status == "ok"}
    for summary in loaded:
        assert TraceSummary(**summary) == found[summary["variant"]]
        assert (summary["steps"], summary["torch"], summary["clock"]) == (STEPS, torch.__version__, "profiled")

    for damage in ("{", '{"function": 1}', "[]", json.dumps({**loaded[0], "trace": "gone"})):
        path = tmp_path / "f" / "v" / "summary.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(damage)
        with pytest.warns(UserWarning, match=re.escape(str(path))):
            assert load_summaries(tmp_path) == []


def test_tracing_again_replaces_the_run_and_a_broken_export_leaves_it(tmp_path, monkeypatch):
    def again():
        return autofn.trace([FUNCTION], variants=["eager"], steps=1, stacks=False, out=tmp_path)

    (first,) = again()
    (second,) = again()
    assert first.trace != second.trace
    assert trace_in(tmp_path / FUNCTION / "eager").name == second.trace

    before = files_below(tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "_as_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert files_below(tmp_path) == before
    assert sorted(path.name for path in (tmp_path / FUNCTION).iterdir()) == ["eager"]


def test_what_lies_there_from_the_same_code_is_not_recorded_again(tmp_path, monkeypatch):
    def record(**asked):
        seen = []
        request = {"variants": ["eager", "python"], "steps": 1, "stacks": False, "missing": True, **asked}
        found = autofn.trace([FUNCTION], out=tmp_path, progress=lambda *now: seen.append(now), **request)
        return found, [label for _, _, label in seen if label]

    runs = [f"{FUNCTION}/{name}" for name in ("eager", "python", "all")]
    first, recorded = record()
    assert recorded == runs
    assert record() == (first, [])
    assert record(variants=["eager"])[1] == []
    assert record(missing=False)[1] == runs
    for asked in ({"steps": 2}, {"workload": "tiny"}, {"flame": True}, {"steps": 2}):
        assert record(**asked)[1] == runs, asked
    monkeypatch.setattr(registry, "fingerprint", lambda: "of other code")
    assert record(steps=2)[1] == runs
    (tmp_path / FUNCTION / "all" / "summary.json").unlink()
    assert record(steps=2)[1] == runs


def test_a_variant_that_raises_takes_no_other_down(tmp_path, monkeypatch):
    load = registry.load

    def broken(*_):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(registry, "load", lambda *names: broken if names[1] == "python" else load(*names))
    found = autofn.trace([FUNCTION], variants=["python", "eager"], steps=1, out=tmp_path)
    assert [(summary.variant, summary.status) for summary in found] == [("python", "failed"), ("eager", "ok")]
    assert found[0].reason.startswith("RuntimeError: on purpose (")
    assert not (tmp_path / FUNCTION / "python").exists()


def test_a_memory_snapshot_is_of_one_step_and_history_is_switched_off_again(monkeypatch):
    said = []
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **how: said.append(how))
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda path: Path(path).write_bytes(b"snapshot"))
    assert profiling.memory_snapshot(lambda: said.append("step")) == b"snapshot"
    assert said == [{}, "step", {"enabled": None}]

    def broken():
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        profiling.memory_snapshot(broken)
    assert said[-1] == {"enabled": None}


def test_a_variant_that_cannot_run_here_is_not_traced_and_has_its_reason(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    found = autofn.trace([FUNCTION], device="cuda", out=tmp_path)
    assert {(summary.status, summary.trace) for summary in found} == {("n/a", "")}
    for summary in found:
        assert summary.reason == registry.unavailable(FUNCTION, summary.variant, "cuda")
    assert not files_below(tmp_path)


def test_threads_environment_and_progress_are_as_they_should_be(tmp_path, monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    threads, seen = torch.get_num_threads(), []
    autofn.trace([FUNCTION], variants=["eager"], steps=1, out=tmp_path, progress=lambda *now: seen.append(now))
    assert torch.get_num_threads() == threads
    assert "KINETO_LOG_LEVEL" not in os.environ
    assert seen == [(0, 2, f"{FUNCTION}/eager"), (1, 2, f"{FUNCTION}/all"), (2, 2, "")]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"functions": ["no_such"]}, LookupError),
        ({"variants": ["no_such"]}, LookupError),
        ({"workload": "no_such"}, LookupError),
        ({"dtype": "no_such"}, LookupError),
        ({"dtype": "int64"}, LookupError),
        ({"device": "no_such"}, ValueError),
        ({"steps": 0}, ValueError),
        ({"memory": True}, ValueError),
    ],
    ids=str,
)
def test_a_wrong_name_or_number_is_an_error_before_anything_is_recorded(wrong, error, tmp_path):
    with pytest.raises(error):
        autofn.trace(**wrong, out=tmp_path)
    assert not files_below(tmp_path)


OWN = """
import torch
from autofn import Spec, Tolerance

class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x

    @staticmethod
    def backward(ctx, grad_output):
        return 3 * grad_output

def make_inputs(n, *, dtype, device, seed=0):
    return (torch.ones(n, dtype=dtype, device=device).requires_grad_(),)

SIZES = {"tiny": {"n": 5}, "small": {"n": 50}, "large": {"n": 500}}
TOLERANCES = {torch.float32: Tolerance(1e-6, 0, "one product")}
SPEC = Spec("triple", lambda x: 3 * x, make_inputs, SIZES, TOLERANCES, "1", variants={"python": Triple})
"""


def test_functions_of_somebodys_own_are_labelled_linked_and_compared_too(tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    words = ("-m", "autofn", "trace", "--spec", "mine.py")
    done = python(*words, "-v", "eager", "-v", "python", cwd=tmp_path, package=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "traces" / "triple"
    assert sorted(path.name for path in folder.iterdir()) == ["all", "eager", "python"]
    assert linked(events_in(folder / "all"), "python", "triple") == STEPS
    table = pd.read_csv(folder / "python" / "operators.csv")
    assert set(table.loc[table.name == "aten::mul", "input_shapes"]) == {"[[50], []]"}

    done = python(*words, "triple", "--compare", "eager", "python", cwd=tmp_path, package=ROOT)
    assert "TripleBackward" in done.stdout, done.stderr


def test_the_command_records_prints_the_runs_and_how_to_view_them(tmp_path):
    arguments = ["--variant", "eager", "--steps", "1", "--no-stacks", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [FUNCTION, *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert str(trace_in(tmp_path / FUNCTION / "eager").parent) in result.stdout
    assert f"view: autofn trace --view --out {tmp_path}" in result.stdout
    assert not any(found.get("cat") == "python_function" for found in events_in(tmp_path / FUNCTION / "eager"))


def test_the_command_says_by_its_exit_status_what_went_wrong(tmp_path, monkeypatch):
    def status(*arguments):
        return CliRunner().invoke(app, [FUNCTION, "--variant", "eager", "--out", str(tmp_path), *arguments]).exit_code

    if not torch.cuda.is_available():
        assert status("--device", "cuda") == 3
    found = CliRunner().invoke(app, [FUNCTION, "--variant", "no_such"])
    assert isinstance(found.exception, LookupError)

    def broken(*_):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(recording, "prepare", broken)
    assert status() == 1
