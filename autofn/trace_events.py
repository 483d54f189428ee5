"""The events of a trace: made readable for every TensorBoard view, and summed into operators and kernels.

An event is a dict of the Chrome trace format as Kineto writes it: `ts` and `dur` in microseconds, `cat` its category.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Event = dict[str, Any]
PROFILED = "profiled"
COLUMNS = (
    "function",
    "variant",
    "phase",
    "name",
    "calls",
    "self_time_s",
    "total_time_s",
    "device_time_s",
    "input_shapes",
    "clock",
)


class Phases:
    """The labelled spans `<function>/<variant>/<phase>` of a trace, in order of time. They do not overlap."""

    def __init__(self, events: Iterable[Event], function: str) -> None:
        label = re.compile(rf"{re.escape(function)}/(\w+)/(\w+)")
        found = [(e["ts"], e["ts"] + e["dur"], m) for e in _operators(events) if (m := label.fullmatch(e["name"]))]
        self.spans = sorted(found, key=lambda span: span[0])
        self.starts = [span[0] for span in self.spans]
        self.calls = Counter(self._names(span[2]) for span in self.spans)

    def at(self, ts: float) -> tuple[str, str] | None:
        """(variant, phase) at a moment, on whichever thread: autograd runs a CUDA backward on a thread of its own."""
        position = bisect_right(self.starts, ts) - 1
        if position < 0 or ts >= self.spans[position][1]:
            return None
        return self._names(self.spans[position][2])

    @staticmethod
    def _names(match: re.Match[str]) -> tuple[str, str]:
        return match[1], match[2]


def readable(events: Iterable[Event], function: str) -> list[Event]:
    """The events in categories that torch-tb-profiler 0.4.3 knows; any other reader shows them as before.

    The phases of `function` become operators, or they would show in the Trace view only; calls of the CUDA runtime and
    driver become what they once were called, or all device times are 0; the device's copies of the steps get a
    category of their own, or each step counts twice.
    """
    return [{**event, "cat": _category(event, f"{function}/")} if "cat" in event else event for event in events]


def _category(event: Event, prefix: str) -> str:
    category: str = event["cat"]
    if category == "user_annotation" and event["name"].startswith(prefix):
        return "cpu_op"
    if category in ("cuda_runtime", "cuda_driver"):
        return "runtime"
    if category == "gpu_user_annotation" and event["name"].startswith("ProfilerStep#"):
        return "gpu_step"
    return category


def operators(events: Sequence[Event], function: str, device: str) -> list[dict[str, Any]]:
    """One row a (variant, phase, operator, input shapes) with the columns COLUMNS, summed over all steps.

    self_time_s excludes operators called inside, total_time_s includes them. device_time_s is that of the kernels which
    the operator itself launched, None on the CPU.
    """
    phases = Phases(events, function)
    launched: dict[Any, float] = defaultdict(float)
    for event in events:
        if event.get("cat") == "kernel":
            launched[event.get("args", {}).get("External id")] += event["dur"]
    sums: dict[tuple[str, str, str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for event, self_us in _self_times(events):
        where = phases.at(event["ts"])
        if where is None:
            continue
        args = event.get("args", {})
        row = sums[*where, event["name"], json.dumps(args.get("Input Dims", []))]
        for position, value in enumerate((1, self_us, event["dur"], launched.get(args.get("External id"), 0.0))):
            row[position] += value
    return [
        {
            "function": function,
            "variant": variant,
            "phase": phase,
            "name": name,
            "calls": int(calls),
            "self_time_s": self_us / 1e6,
            "total_time_s": total_us / 1e6,
            "device_time_s": None if device == "cpu" else kernels_us / 1e6,
            "input_shapes": shapes,
            "clock": PROFILED,
        }
        for (variant, phase, name, shapes), (calls, self_us, total_us, kernels_us) in sums.items()
    ]


def _operators(events: Iterable[Event]) -> Iterator[Event]:
    return (event for event in events if event.get("cat") == "cpu_op" and event.get("ph") == "X")


def _self_times(events: Iterable[Event]) -> Iterator[tuple[Event, float]]:
    """Each operator with its time less that of the operators directly inside, in microseconds."""
    threads: dict[Any, list[Event]] = defaultdict(list)
    for event in _operators(events):
        threads[event["pid"], event["tid"]].append(event)
    for found in threads.values():
        found.sort(key=lambda event: (event["ts"], -event["dur"]))
        self_us = [event["dur"] for event in found]
        open_: list[int] = []
        for position, event in enumerate(found):
            while open_ and event["ts"] >= found[open_[-1]]["ts"] + found[open_[-1]]["dur"]:
                open_.pop()
            if open_:
                self_us[open_[-1]] -= event["dur"]
            open_.append(position)
        yield from zip(found, self_us, strict=True)


def kernels(events: Sequence[Event], function: str, device: str) -> dict[tuple[str, str], dict[str, float]]:
    """{(variant, phase): {kernel: launches in one call}}, of the phases in which a kernel with a name was launched."""
    phases = Phases(events, function)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for ts, name in _cpu_launches(events) if device == "cpu" else _cuda_launches(events):
        where = phases.at(ts)
        if where:
            counts[where][name] += 1
    return {
        where: {name: _per_call(launches, phases.calls[where]) for name, launches in sorted(found.items())}
        for where, found in counts.items()
    }


def _cpu_launches(events: Iterable[Event]) -> Iterator[tuple[float, str]]:
    # `graph_3_` counts what this process compiled before; without it the name is the same in each recording.
    for event in _operators(events):
        match = re.fullmatch(r"(?:graph_\d+_)?(cpp_\w+)", event["name"])
        if match:
            yield event["ts"], match[1]


def _cuda_launches(events: Sequence[Event]) -> Iterator[tuple[float, str]]:
    """The kernels, each at the moment of the call that launched it: it may itself run when that phase is over."""
    calls: dict[Any, float] = {
        event["args"].get("correlation"): event["ts"]
        for event in events
        if event.get("cat") == "runtime" and "args" in event
    }
    for event in events:
        if event.get("cat") == "kernel":
            called = calls.get(event.get("args", {}).get("correlation"))
            yield event["ts"] if called is None else called, event["name"]


def _per_call(launches: int, calls: int) -> float:
    return launches // calls if launches % calls == 0 else launches / calls
