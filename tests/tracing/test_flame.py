"""The flame graph: a file in speedscope's format, with calls inside each other as in the trace."""

from __future__ import annotations

import json
from pathlib import Path

from traces import FUNCTION, STEPS, event

import autofn
from autofn.tracing.events import PYTHON
from autofn.tracing.flame import flame_graph


def opened(profile, frames):
    """(name, depth, microseconds) of each call, in the order of their ends; every closing fits the last opening."""
    found, open_ = [], []
    moment = profile["startValue"]
    for entry in profile["events"]:
        assert entry["at"] >= moment
        moment = entry["at"]
        if entry["type"] == "O":
            open_.append(entry)
        else:
            begin = open_.pop()
            assert begin["frame"] == entry["frame"]
            found.append((frames[entry["frame"]]["name"], len(open_), entry["at"] - begin["at"]))
    assert not open_
    assert moment == profile["endValue"]
    return found


def test_calls_stand_inside_each_other_and_none_outlasts_what_it_is_in():
    events = [
        event(PYTHON, "made/profiler.py(3): step", 0, 2),
        event("user_annotation", "ProfilerStep#1", 1, 99),
        event("user_annotation", "## Call CompiledFxGraph ##", 4, 90),
        event(PYTHON, "made/module.py(12): forward", 10, 50),
        event("cpu_op", "aten::mul", 20, 41),
        event("cpu_op", "aten::mul", 70, 10),
        event("cpu_op", "elsewhere", 5, 5, tid=2),
    ]
    graph = flame_graph(events, "f/v")
    main, other = graph["profiles"]
    assert opened(main, graph["shared"]["frames"]) == [
        ("step", 0, 2),
        ("aten::mul", 2, 40),
        ("forward", 1, 50),
        ("aten::mul", 1, 10),
        ("## Call CompiledFxGraph ##", 0, 90),
    ]
    assert opened(other, graph["shared"]["frames"]) == [("elsewhere", 0, 5)]
    assert {"name": "forward", "file": "made/module.py", "line": 12} in graph["shared"]["frames"]
    assert [profile["unit"] for profile in graph["profiles"]] == ["microseconds", "microseconds"]


def test_it_lies_beside_the_trace_where_it_was_asked_for_and_goes_with_it(tmp_path):
    def record(**asked):
        (summary,) = autofn.trace([FUNCTION], variants=["python"], steps=STEPS, out=tmp_path, **asked)
        return Path(summary.folder) / "flame.speedscope.json"

    path = record(flame=True)
    graph = json.loads(path.read_text())
    profile = max(graph["profiles"], key=lambda found: len(found["events"]))
    names = [name for name, _, _ in opened(profile, graph["shared"]["frames"])]
    assert names.count(f"{FUNCTION}/python/forward") == names.count(f"{FUNCTION}/python/backward") == STEPS
    assert "apply" in names, "Python calls are in it"
    assert not record().exists(), "it would be of another recording than the trace"
