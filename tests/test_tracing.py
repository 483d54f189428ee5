"""Traces are recorded, moved into place whole, and read by the TensorBoard plugin, in process and over HTTP."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

import autofn
from autofn import registry, trace_events, trace_files, tracing
from autofn.cli.trace import trace_command

FUNCTION = registry.names()[0]
VARIANTS = registry.variants(FUNCTION)
VIEWS = ["Overview", "Operator", "Trace", "Memory", "Module"]
STEPS = 3
PLUGIN = "/data/plugin/pytorch_profiler"

# Dynamo itself looks at `.grad` of the tensors that it is given, as at any other attribute.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")

app = Typer()
app.command()(trace_command)


def named(kind):
    return [variant.name for variant in VARIANTS if variant.kind == kind]


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trace_in(folder):
    (path,) = folder.glob("*.pt.trace.json.gz")
    return path


def events_in(folder):
    return json.loads(gzip.decompress(trace_in(folder).read_bytes()))["traceEvents"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    out = tmp_path_factory.mktemp("traces")
    return out, {found.variant: found for found in autofn.trace([FUNCTION], steps=STEPS, out=out)}


@pytest.fixture(scope="module")
def folders(recorded):
    """Where the runs lie that could be recorded here, `all` among them."""
    _, found = recorded
    return {name: Path(summary.folder) for name, summary in found.items() if summary.status == "ok"}


def test_every_variant_is_traced_or_says_why_not(recorded):
    _, found = recorded
    assert list(found) == [*(variant.name for variant in VARIANTS), "all"]
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
        assert list(table.columns) == list(trace_events.COLUMNS)
        assert set(table.phase) == {"forward", "backward"}
        assert set(table.clock) == {"profiled"}
        assert (table.calls % STEPS == 0).all()
        assert (table.self_time_s >= -1e-8).all()  # the trace has nanoseconds
        assert (table.self_time_s <= table.total_time_s + 1e-12).all()
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


def test_a_forward_is_linked_to_its_backward(folders):
    for name in [*named("python"), *named("cpp")]:
        if name in folders:
            assert_linked(events_in(folders[name]), registry.variant(FUNCTION, name).kind)


def assert_linked(events, kind):
    """An arrow a step leads from the forward's operator to its own backward node."""
    names = {}
    for event in events:
        if event.get("cat") == "cpu_op":
            names.setdefault(event["ts"], []).append(event["name"])
    ends = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            ends.setdefault(event["id"], {})[event["ph"]] = names[event["ts"]]
    if kind == "python":
        linked = [end for end in ends.values() if {f"{name}Backward" for name in end["s"]} & set(end["f"])]
    else:
        linked = [
            end
            for end in ends.values()
            if any(name.startswith("autofn::") for name in end["s"])
            and any(name.startswith("torch::autograd::CppNode<") for name in end["f"])
        ]
    assert len(linked) >= STEPS, ends


def test_a_trace_names_no_folder_of_this_machine(folders):
    root = str(Path(autofn.__file__).parent.parent)
    for folder in folders.values():
        text = gzip.decompress(trace_in(folder).read_bytes()).decode()
        assert root not in text
        assert not re.search(r"/torchinductor_", text)


def test_summaries_come_back_and_a_damaged_one_is_named(recorded, tmp_path):
    out, found = recorded
    loaded = trace_files.load_summaries(out)
    assert {summary["variant"] for summary in loaded} == {name for name, s in found.items() if s.status == "ok"}
    for summary in loaded:
        assert trace_files.TraceSummary(**summary) == found[summary["variant"]]
        assert (summary["steps"], summary["torch"], summary["clock"]) == (STEPS, torch.__version__, "profiled")

    for damage in ("{", '{"function": 1}', "[]", json.dumps({**loaded[0], "trace": "gone"})):
        path = tmp_path / "f" / "v" / "summary.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(damage)
        with pytest.warns(UserWarning, match=re.escape(str(path))):
            assert trace_files.load_summaries(tmp_path) == []


def test_tracing_again_replaces_the_run_and_a_broken_export_leaves_it(tmp_path, monkeypatch):
    def again():
        return autofn.trace([FUNCTION], variants=["eager"], steps=1, stacks=False, out=tmp_path)

    (first,) = again()
    (second,) = again()
    assert first.trace != second.trace
    assert trace_in(tmp_path / FUNCTION / "eager").name == second.trace

    before = files(tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(trace_files, "_as_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert files(tmp_path) == before
    assert sorted(path.name for path in (tmp_path / FUNCTION).iterdir()) == ["eager"]


def test_a_variant_that_raises_takes_no_other_down(tmp_path, monkeypatch):
    load = registry.load

    def broken(*_):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(registry, "load", lambda *names: broken if names[1] == "python" else load(*names))
    found = autofn.trace([FUNCTION], variants=["python", "eager"], steps=1, out=tmp_path)
    assert [(summary.variant, summary.status) for summary in found] == [("python", "failed"), ("eager", "ok")]
    assert found[0].reason == "RuntimeError: on purpose"
    assert not (tmp_path / FUNCTION / "python").exists()


def test_a_variant_that_cannot_run_here_is_not_traced_and_has_its_reason(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    found = autofn.trace([FUNCTION], device="cuda", out=tmp_path)
    assert {(summary.status, summary.trace) for summary in found} == {("n/a", "")}
    for summary in found:
        assert summary.reason == registry.unavailable(FUNCTION, summary.variant, "cuda")
    assert not files(tmp_path)


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
    ],
    ids=str,
)
def test_a_wrong_name_or_number_is_an_error_before_anything_is_recorded(wrong, error, tmp_path):
    with pytest.raises(error):
        autofn.trace(**wrong, out=tmp_path)
    assert not files(tmp_path)


# Two steps of a forward with two kernels and a backward with one, as Kineto writes them on CUDA: the backward runs on a
# thread of autograd's, and the last kernel of the forward runs when the backward has begun.
def cuda_events():
    events = []
    for start in (0, 100):
        step = f"ProfilerStep#{1 + start // 100}"
        events += [
            event("user_annotation", step, start, 100),
            event("gpu_user_annotation", step, start, 100, tid=7),
            event("user_annotation", "f/v/forward", start + 10, 40),
            event("cpu_op", "aten::mul", start + 12, 20, **{"External id": start + 1, "Input Dims": [[2, 3]]}),
            event("cuda_runtime", "cudaLaunchKernel", start + 15, 2, correlation=start + 1),
            event("cuda_driver", "cuLaunchKernel", start + 18, 2, correlation=start + 2),
            event("kernel", "mul", start + 20, 5, tid=7, correlation=start + 1, **{"External id": start + 1}),
            event("kernel", "mul", start + 65, 7, tid=7, correlation=start + 2, **{"External id": start + 1}),
            event("user_annotation", "f/v/backward", start + 60, 30),
            event("cpu_op", "MulBackward", start + 62, 20, tid=2, **{"External id": start + 3}),
            event("cuda_runtime", "cudaLaunchKernel", start + 70, 2, tid=2, correlation=start + 3),
            event("kernel", "mul_back", start + 75, 9, tid=7, correlation=start + 3, **{"External id": start + 3}),
        ]
    return trace_events.readable([{"ph": "M", "name": "process_name"}, *events], "f")


def event(category, name, ts, dur, tid=1, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}


def test_cuda_categories_become_those_that_the_plugin_knows():
    categories = {(found.get("cat"), found["name"]) for found in cuda_events()}
    assert {found for found in categories if "Launch" in found[1]} == {
        ("runtime", "cudaLaunchKernel"),
        ("runtime", "cuLaunchKernel"),
    }
    assert {category for category, name in categories if name == "ProfilerStep#1"} == {"user_annotation", "gpu_step"}
    assert ("cpu_op", "f/v/forward") in categories


def test_cuda_kernels_belong_to_the_phase_that_launched_them():
    assert trace_events.kernels(cuda_events(), "f", "cuda") == {
        ("v", "forward"): {"mul": 2},
        ("v", "backward"): {"mul_back": 1},
    }
    rows = {row["name"]: row for row in trace_events.operators(cuda_events(), "f", "cuda")}
    assert {name: round(row["device_time_s"] * 1e6) for name, row in rows.items()} == {
        "f/v/forward": 0,
        "f/v/backward": 0,
        "aten::mul": 24,
        "MulBackward": 18,
    }
    assert rows["aten::mul"] == {
        "function": "f",
        "variant": "v",
        "phase": "forward",
        "name": "aten::mul",
        "calls": 2,
        "self_time_s": pytest.approx(40e-6),
        "total_time_s": pytest.approx(40e-6),
        "device_time_s": pytest.approx(24e-6),
        "input_shapes": "[[2, 3]]",
        "clock": "profiled",
    }
    assert rows["f/v/forward"]["self_time_s"] == pytest.approx(40e-6)


def test_the_command_records_prints_the_runs_and_how_to_view_them(tmp_path):
    arguments = ["--variant", "eager", "--steps", "1", "--no-stacks", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [FUNCTION, *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert str(trace_in(tmp_path / FUNCTION / "eager").parent) in result.stdout
    assert f"TORCH_PROFILER_START_METHOD=fork tensorboard --logdir {tmp_path}" in result.stdout
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

    monkeypatch.setattr(tracing, "prepare", broken)
    assert status() == 1


def test_the_plugin_parses_every_run(folders, tmp_path):
    data = pytest.importorskip("torch_tb_profiler.profiler.data", reason="needs torch-tb-profiler")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    for name, folder in folders.items():
        parsed = data.RunProfileData.parse("worker", "1", str(trace_in(folder)), str(tmp_path))
        run = generator.RunGenerator("worker", "1", parsed).generate_run_profile()
        assert [view.display_name for view in run.views] == VIEWS
        assert parsed.steps_names == [str(step) for step in range(1, STEPS + 1)]
        rows = {row["name"] for row in run.operation_table_by_name["data"]}
        shown = folders.keys() - {"all"} if name == "all" else {name}
        assert {f"{FUNCTION}/{shown}/{phase}" for shown in shown for phase in ("forward", "backward")} <= rows
        assert run.get_memory_curve()["rows"]["CPU"]


class Server:
    """A TensorBoard of its own on a free port; `get` asks the plugin, `log` is what it printed."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1"],
            stderr=subprocess.PIPE,
            text=True,
            # spawn, the plugin's default, starts one Python a trace.
            env={**os.environ, "TORCH_PROFILER_START_METHOD": "fork"},
        )
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if match := re.search(r"at (http://127\.0\.0\.1:\d+)", line):
                self.base = match[1]
                break
        else:
            raise RuntimeError("".join(self.log))
        threading.Thread(target=lambda: self.log.extend(self.process.stderr), daemon=True).start()

    def get(self, path, **query):
        url = f"{self.base}{PLUGIN}/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as response:
            body = response.read()
            return json.loads(gzip.decompress(body) if response.headers.get("Content-Encoding") == "gzip" else body)

    def runs(self, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.get("runs")
            if found["runs"] and not found["loading"]:
                return found["runs"]
            time.sleep(0.1)
        raise TimeoutError("".join(self.log))

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def server(recorded):
    for module in ("tensorboard", "torch_tb_profiler"):
        pytest.importorskip(module, reason=f"needs {module}: pip install 'autofn[tensorboard]'")
    server = Server(recorded[0])
    yield server
    server.stop()


def test_tensorboard_shows_every_run_in_every_view(server, folders):
    assert server.runs() == sorted(f"{FUNCTION}/{name}" for name in folders)
    for name in folders:
        run = {"run": f"{FUNCTION}/{name}"}
        assert server.get("views", **run) == VIEWS  # an unreadable file yields a run without views
        (worker,) = server.get("workers", view="Overview", **run)
        assert worker == name
        (span,) = server.get("spans", worker=worker, **run)
        run |= {"worker": worker, "span": span}
        steps = [row[0] for row in server.get("overview", **run)["steps"]["rows"]]
        assert steps == [str(step) for step in range(1, STEPS + 1)]
        operators = {row["name"]: row for row in server.get("operation/table", group_by="Operation", **run)["data"]}
        memory = {row[0] for row in server.get("memory", **run)["rows"]["CPU"]}
        modules = {row["name"] for row in server.get("module", **run)["data"]}
        for variant in folders.keys() - {"all"} if name == "all" else {name}:
            label = f"{FUNCTION}/{variant}"
            assert operators[f"{label}/forward"]["calls"] == operators[f"{label}/backward"]["calls"] == STEPS
            assert operators[f"{label}/forward"]["has_call_stack"]
            assert memory & {f"{label}/forward", f"{label}/backward"}
            assert f"{label}_0" in modules
    assert not [line for line in server.log if re.search("Failed to parse|Error in input|Traceback", line)]


def test_tensorboard_draws_arrows_from_forward_to_backward(server, folders):
    server.runs()
    for name in [*named("python"), *named("cpp")]:
        if name in folders:
            trace = server.get("trace", run=f"{FUNCTION}/{name}", worker=name, span="1")
            assert_linked(trace["traceEvents"], registry.variant(FUNCTION, name).kind)
