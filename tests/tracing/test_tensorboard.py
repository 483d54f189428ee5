"""The TensorBoard plugin reads every run, in process and over HTTP."""

from __future__ import annotations

import re
import socket
import urllib.parse

import pytest
from traces import FUNCTION, STEPS, VIEWS, Viewer, linked, trace_in

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


PHASES = ("forward", "backward")


@pytest.fixture(scope="module")
def viewer(recorded):
    found = Viewer(recorded[0])
    yield found
    assert found.stop() == 0


def test_the_plugin_parses_every_run(folders, tmp_path):
    data = pytest.importorskip("torch_tb_profiler.profiler.data", reason="needs torch-tb-profiler")
    generator = pytest.importorskip("torch_tb_profiler.profiler.run_generator")
    for name, folder in folders.items():
        parsed = data.RunProfileData.parse("worker", "1", str(trace_in(folder)), str(tmp_path))
        run = generator.RunGenerator("worker", "1", parsed).generate_run_profile()
        assert [view.display_name for view in run.views] == VIEWS
        assert len(parsed.steps_names) == STEPS
        rows = {row["name"] for row in run.operation_table_by_name["data"]}
        assert {f"{FUNCTION}/{shown}/{phase}" for shown in shown_in(name, folders) for phase in PHASES} <= rows
        assert run.get_memory_curve()["rows"]["CPU"]


def test_tensorboard_shows_every_run_in_every_view(viewer, folders):
    assert viewer.get("runs") == {"runs": sorted(f"{FUNCTION}/{name}" for name in folders), "loading": False}
    assert viewer.count == len(folders)
    for name in folders:
        run = {"run": f"{FUNCTION}/{name}"}
        assert viewer.get("views", **run) == VIEWS  # an unreadable file yields a run without views
        (worker,) = viewer.get("workers", view="Overview", **run)
        assert worker == name
        (span,) = viewer.get("spans", worker=worker, **run)
        run |= {"worker": worker, "span": span}
        assert len(viewer.get("overview", **run)["steps"]["rows"]) == STEPS
        operators = {row["name"]: row for row in viewer.get("operation/table", group_by="Operation", **run)["data"]}
        memory = {row[0] for row in viewer.get("memory", **run)["rows"]["CPU"]}
        modules = {row["name"] for row in viewer.get("module", **run)["data"]}
        for variant in shown_in(name, folders):
            label = f"{FUNCTION}/{variant}"
            assert operators[f"{label}/forward"]["calls"] == operators[f"{label}/backward"]["calls"] == STEPS
            assert operators[f"{label}/forward"]["has_call_stack"]
            assert memory & {f"{label}/forward", f"{label}/backward"}
            assert f"{label}_0" in modules
    assert not [line for line in viewer.log if re.search("Failed to parse|Error in input|Traceback", line)]


def test_tensorboard_listens_on_one_address_alone(viewer):
    port = urllib.parse.urlsplit(viewer.base).port
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_call_stacks_open(viewer, folders):
    for name in folders.keys() - {"all"}:
        label = f"{FUNCTION}/{name}/forward"
        run = {"run": f"{FUNCTION}/{name}", "worker": name, "span": "1"}
        stacks = viewer.get("operation/stack", op_name=label, group_by="Operation", **run)
        assert any("autofn/tracing/profiling.py" in row["call_stack"] for row in stacks["data"])


def test_tensorboard_draws_arrows_from_forward_to_backward(viewer, folders):
    for name in folders.keys() - {"all"}:
        trace = viewer.get("trace", run=f"{FUNCTION}/{name}", worker=name, span="1")
        assert linked(trace["traceEvents"], name) >= STEPS, name


def shown_in(name, folders):
    """The variants that a run holds."""
    return folders.keys() - {"all"} if name == "all" else {name}
