"""Operators and kernels of a trace: sums of events that were made by hand to Kineto's format."""

from __future__ import annotations

import gzip
import json

import pytest
from traces import event, trace_in

from autofn.tracing import TraceSummary, files
from autofn.tracing.events import PYTHON, innermost, nested, of_last_steps, readable, trimmed
from autofn.tracing.operators import kernels, operators


def us(seconds):
    return round(seconds * 1e6, 3)


def rows(events, device):
    return {row["name"]: row for row in operators(readable(events, "f"), "f", device)}


# Two steps. The first kernel of aten::mul is launched through the runtime, the second through the driver, and it still
# runs when the phase is over; the backward's are launched on a thread of autograd's.
def cuda_events():
    events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}]
    for number, start in enumerate((0, 200)):
        step = f"ProfilerStep#{1 + number}"
        first, second, third = (10 * number + each for each in (1, 2, 3))
        events += [
            event("user_annotation", step, start, 200),
            event("gpu_user_annotation", step, start, 200, tid=7),
            event("user_annotation", "f/v/forward", start + 10, 60),
            event("cpu_op", "aten::mul", start + 12, 20, **{"External id": first, "Input Dims": [[2, 3]]}),
            event("cuda_runtime", "cudaLaunchKernel", start + 15, 2, correlation=first, **{"External id": first}),
            event("cuda_driver", "cuLaunchKernel", start + 18, 2, correlation=second, **{"External id": first}),
            kernel("mul", start + 20, 5, first, first),
            kernel("mul", start + 75, 7, second, first),
            event("user_annotation", "f/v/backward", start + 100, 60),
            event("cpu_op", "MulBackward", start + 102, 20, tid=2, **{"External id": third}),
            # An id that no operator has, as Kineto writes it now and then: the plugin leaves such a kernel out.
            event("cuda_driver", "cuLaunchKernel", start + 110, 2, tid=2, correlation=third, **{"External id": 99}),
            kernel("mul_back", start + 115, 9, third, 99),
        ]
    return events


def kernel(name, ts, dur, correlation, external):
    where = {"device": 0, "context": 1, "stream": 7, "correlation": correlation, "External id": external}
    size = {"registers per thread": 16, "shared memory": 0, "grid": [132, 1, 1], "block": [128, 1, 1]}
    load = {"blocks per SM": 1.0, "warps per SM": 4.0, "est. achieved occupancy %": 6}
    return {**event("kernel", name, ts, dur, tid=7, queued=0, **where, **size, **load), "pid": 0}


DEVICE = {
    "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
    "sharedMemPerBlock": 49152, "numSms": 132,
}  # fmt: skip


def test_cuda_categories_become_those_that_the_plugin_knows():
    categories = {(found.get("cat"), found["name"]) for found in readable(cuda_events(), "f")}
    assert {found for found in categories if "Launch" in found[1]} == {
        ("runtime", "cudaLaunchKernel"),
        ("runtime", "cuLaunchKernel"),
    }
    assert {category for category, name in categories if name == "ProfilerStep#1"} == {"user_annotation", "gpu_step"}
    assert ("cpu_op", "f/v/forward") in categories


def test_cuda_kernels_belong_to_the_phase_that_launched_them():
    assert kernels(readable(cuda_events(), "f"), "f", "cuda") == {
        ("v", "forward"): {"mul": 2},
        ("v", "backward"): {"mul_back": 1},
    }


def test_cuda_kernels_belong_to_the_operator_inside_which_they_were_launched():
    found = rows(cuda_events(), "cuda")
    assert {name: (row["launches"], us(row["kernel_time_s"])) for name, row in found.items()} == {
        "f/v/forward": (0, 0),
        "f/v/backward": (0, 0),
        "aten::mul": (4, 24),
        "MulBackward": (2, 18),
    }
    assert found["aten::mul"] == {
        "function": "f",
        "variant": "v",
        "phase": "forward",
        "name": "aten::mul",
        "calls": 2,
        "self_time_s": pytest.approx(40e-6),
        "low_s": pytest.approx(20e-6),
        "high_s": pytest.approx(20e-6),
        "total_time_s": pytest.approx(40e-6),
        "launches": 4,
        "kernel_time_s": pytest.approx(24e-6),
        "input_shapes": "[[2, 3]]",
        "clock": "profiled",
    }
    assert us(found["f/v/forward"]["self_time_s"]) == 80


def test_without_a_record_of_its_launch_a_kernel_is_found_by_the_id_of_its_operator():
    found = rows([each for each in cuda_events() if "Launch" not in each["name"]], "cuda")
    assert (found["aten::mul"]["launches"], found["MulBackward"]["launches"]) == (4, 0)


def test_a_cuda_trace_has_device_times_in_the_plugin(tmp_path):
    data = pytest.importorskip("torch_tb_profiler.profiler.data", reason="needs torch-tb-profiler")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [DEVICE], "traceEvents": cuda_events()}))
    files.write(TraceSummary("f", "v", "small", "float32", "cuda", steps=2), exported, tmp_path)

    parsed = data.RunProfileData.parse("v", "1", str(trace_in(tmp_path / "f" / "v")), str(tmp_path))
    run = generator.RunGenerator("v", "1", parsed).generate_run_profile()

    assert [view.display_name for view in run.views] == ["Overview", "Operator", "Kernel", "Trace"]
    assert parsed.steps_names == ["1", "2"]
    device = {row["name"]: row["device_self_duration"] for row in run.operation_table_by_name["data"]}
    assert device["aten::mul"] == 24
    assert {row[0]: row[1] for row in run.kernel_op_table["data"]["rows"]} == {"mul": "aten::mul"}


# A phase of a variant on the CPU: an operator that calls itself once it has saved what its backward needs, a composite
# one, a reduction that fills its output first, a view, and a compiled kernel.
def cpu_events(start=0):
    return [
        event("user_annotation", "f/v/forward", start, 100),
        event("cpu_op", "aten::mul", start + 1, 19),
        event("cpu_op", "aten::mul", start + 5, 10),
        event("cpu_op", "aten::clone", start + 20, 15),
        event("cpu_op", "aten::empty_like", start + 21, 2),
        event("cpu_op", "aten::copy_", start + 25, 8),
        event("cpu_op", "aten::sum", start + 40, 20),
        event("cpu_op", "aten::as_strided", start + 41, 1),
        event("cpu_op", "aten::fill_", start + 45, 5),
        event("cpu_op", "Torch-Compiled Region: 0/0", start + 70, 20),
        event("cpu_op", "graph_3_cpp_fused_exp_0", start + 75, 10),
    ]


def test_on_the_cpu_what_goes_through_elements_is_a_kernel():
    found = rows(cpu_events(), "cpu")
    assert {name: (row["launches"], us(row["kernel_time_s"])) for name, row in found.items()} == {
        "f/v/forward": (0, 0),
        "aten::mul": (1, 10),
        "aten::clone": (0, 0),
        "aten::empty_like": (0, 0),
        "aten::copy_": (1, 8),
        "aten::sum": (1, 14),
        "aten::as_strided": (0, 0),
        "aten::fill_": (1, 5),
        "Torch-Compiled Region: 0/0": (0, 0),
        "graph_3_cpp_fused_exp_0": (1, 10),
    }


def test_a_compiled_kernel_is_named_without_the_number_of_its_graph():
    assert kernels(readable(cpu_events(), "f"), "f", "cpu") == {("v", "forward"): {"cpp_fused_exp_0": 1}}


def test_own_time_is_kept_by_step():
    slower = [{**each, "dur": each["dur"] + (each["name"] == "aten::fill_")} for each in cpu_events(200)]
    found = rows(cpu_events() + slower, "cpu")["aten::fill_"]
    assert (us(found["self_time_s"]), us(found["low_s"]), us(found["high_s"])) == (11, 5, 6)


def test_what_stands_outside_every_phase_is_left_out():
    assert rows([event("cpu_op", "aten::mul", 300, 5), *cpu_events()], "cpu").keys() == rows(cpu_events(), "cpu").keys()


def test_the_last_steps_are_kept_without_what_called_them():
    events = [
        event(PYTHON, "main", 0, 400),
        *(event("user_annotation", f"ProfilerStep#{number}", 100 * number, 100) for number in range(4)),
        *(event("cpu_op", f"in {number}", 100 * number + 10, 5) for number in range(4)),
        {"ph": "M", "name": "process_name"},
    ]
    kept = [found["name"] for found in of_last_steps(events, 2)]
    assert kept == ["ProfilerStep#2", "ProfilerStep#3", "in 2", "in 3", "process_name"]


def test_what_repeats_itself_is_trimmed():
    stack = "aten.py(1): mul;autofn/case.py(35): forward;recording.py(9): forward_and_backward;main.py(1): main;"
    ids = {"Ev Idx": 7, "External id": 8}
    operator, call = trimmed(
        [
            event("cpu_op", "aten::mul", 0, 1, **{"Call stack": stack, "Input Dims": [[3]]}, **ids),
            event(PYTHON, "main", 0, 2, **{"Call stack": stack, "Python id": 1}),
        ]
    )
    kept = "aten.py(1): mul;autofn/case.py(35): forward;recording.py(9): forward_and_backward;"
    assert operator["args"] == {"Call stack": kept, "Input Dims": [[3]]}
    assert call["args"] == {"Python id": 1}


def test_ids_that_kernels_refer_to_are_kept():
    (operator, *_) = [found for found in trimmed(cuda_events()) if found["name"] == "aten::mul"]
    assert operator["args"]["External id"] == 1


def test_the_innermost_call_at_a_moment_is_found():
    calls = nested(readable(cpu_events(), "f"), "cpu_op")[1, 1]
    names = [getattr(innermost(calls, ts), "event", {}).get("name") for ts in (6, 17, 95, 100)]
    assert names == ["aten::mul", "aten::mul", "f/v/forward", None]
    assert innermost(calls, 6).event["ts"] == 5


def test_a_written_run_is_what_its_summary_says(tmp_path):
    exported = tmp_path / "exported.json"
    exported.write_text(json.dumps({"traceEvents": cpu_events()}))
    summary = files.write(TraceSummary("f", "v", "small", "float32", "cpu", steps=1, slowdown=1.5), exported, tmp_path)
    content = json.loads(gzip.decompress(trace_in(tmp_path / "f" / "v").read_bytes()))
    assert content["traceName"] == summary.trace
    assert not (tmp_path / "f" / "v" / "memory.pickle").exists()
    files.write(summary, exported, tmp_path, memory=b"snapshot")
    assert (tmp_path / "f" / "v" / "memory.pickle").read_bytes() == b"snapshot"
    assert "a recorded step took 1.5 times an unrecorded one" in (tmp_path / "f" / "v" / "operators.txt").read_text()
