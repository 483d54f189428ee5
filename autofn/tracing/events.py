"""The events of a trace: made readable for every TensorBoard view, found inside each other, and told by phase.

An event is a dict of the Chrome trace format as Kineto writes it: `ts` and `dur` in microseconds, `cat` its category.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
PROFILED = "profiled"
OPERATOR, PYTHON, ANNOTATION = "cpu_op", "python_function", "user_annotation"
STEP = "ProfilerStep#"
STACK = "Call stack"
# The innermost frame comes first; `profiling` has a function of this name, which calls both phases.
CALLED_STEP = re.compile(r"(: forward_and_backward;).*")


def readable(events: Iterable[Event], function: str) -> list[Event]:
    """The events in categories that torch-tb-profiler 0.4.3 knows; any other reader shows them as before.

    The phases of `function` become operators, or they would show in the Trace view only; calls of the CUDA runtime and
    driver become what they once were called, or all device times are 0; the device's copies of the steps get a
    category of their own, or each step counts twice.
    """
    return [{**event, "cat": _category(event, f"{function}/")} if "cat" in event else event for event in events]


def of_last_steps(events: Iterable[Event], steps: int) -> list[Event]:
    """What begins in the last steps, and all that has no time. What called the steps is thereby left out."""
    events = list(events)
    found = [event for event in complete(events, ANNOTATION) if event["name"].startswith(STEP)]
    kept = sorted(found, key=lambda event: event["ts"])[-steps:]
    if not kept:
        return events
    begin, end = kept[0]["ts"], kept[-1]["ts"] + kept[-1]["dur"]
    return [event for event in events if begin <= event.get("ts", begin) <= end]


def trimmed(events: Iterable[Event]) -> list[Event]:
    """The events without half of their bytes: ids that nothing refers to, the call stacks of Python calls, which stand
    inside each other anyway, and in those of operators what called the step.
    """
    events = list(events)
    # Kernels name the operator that launched them.
    on_device = any(event.get("cat") == "kernel" for event in events)
    ids = {"Ev Idx"} if on_device else {"Ev Idx", "External id"}
    return [{**event, "args": _trimmed(event, ids)} if "args" in event else event for event in events]


def _trimmed(event: Event, ids: set[str]) -> dict[str, Any]:
    kept = {name: value for name, value in event["args"].items() if name not in ids}
    if event.get("cat") == PYTHON:
        kept.pop(STACK, None)
    elif STACK in kept:
        kept[STACK] = CALLED_STEP.sub(r"\1", kept[STACK])
    return kept


def _category(event: Event, prefix: str) -> str:
    category: str = event["cat"]
    if category == ANNOTATION and event["name"].startswith(prefix):
        return OPERATOR
    if category in ("cuda_runtime", "cuda_driver"):
        return "runtime"
    if category == "gpu_user_annotation" and event["name"].startswith(STEP):
        return "gpu_step"
    return category


@dataclass(frozen=True)
class Span:
    """One labelled phase of one step; steps count from 0."""

    variant: str
    phase: str
    step: int
    start: float
    end: float


class Phases:
    """The spans `<function>/<variant>/<phase>` of a trace, in order of time. They do not overlap."""

    def __init__(self, events: Iterable[Event], function: str) -> None:
        label = re.compile(rf"{re.escape(function)}/([^/]+)/(\w+)")
        found = [(e["ts"], e["dur"], m) for e in complete(events, OPERATOR) if (m := label.fullmatch(e["name"]))]
        self.calls: Counter[tuple[str, str]] = Counter()
        self.spans: list[Span] = []
        for ts, dur, match in sorted(found, key=lambda each: each[0]):
            where = match[1], match[2]
            self.spans.append(Span(*where, self.calls[where], ts, ts + dur))
            self.calls[where] += 1
        self.starts = [span.start for span in self.spans]

    def at(self, ts: float) -> Span | None:
        """The phase at a moment, on whichever thread: autograd runs a CUDA backward on a thread of its own."""
        position = bisect_right(self.starts, ts) - 1
        if position < 0 or ts >= self.spans[position].end:
            return None
        return self.spans[position]


@dataclass(eq=False)
class Call:
    """An event with those directly inside it. self_us: its time less theirs."""

    event: Event
    self_us: float
    inner: list[Call] = field(default_factory=list)

    @property
    def end(self) -> float:
        end: float = self.event["ts"] + self.event["dur"]
        return end

    def all_inside(self) -> Iterator[Call]:
        for call in self.inner:
            yield call
            yield from call.all_inside()


def complete(events: Iterable[Event], *categories: str) -> Iterator[Event]:
    """The events of these categories that have a duration."""
    return (event for event in events if event.get("cat") in categories and event.get("ph") == "X")


def nested(events: Iterable[Event], *categories: str) -> dict[tuple[Any, Any], list[Call]]:
    """By process and thread the calls of these categories, in order of time, the outer before the inner."""
    threads: dict[tuple[Any, Any], list[Event]] = defaultdict(list)
    for event in complete(events, *categories):
        threads[event["pid"], event["tid"]].append(event)
    return {thread: _nested(found) for thread, found in threads.items()}


def _nested(events: list[Event]) -> list[Call]:
    calls = [Call(event, event["dur"]) for event in sorted(events, key=lambda event: (event["ts"], -event["dur"]))]
    open_: list[Call] = []
    for call in calls:
        while open_ and call.event["ts"] >= open_[-1].end:
            open_.pop()
        if open_:
            open_[-1].inner.append(call)
            open_[-1].self_us -= call.event["dur"]
        open_.append(call)
    return calls


def innermost(calls: list[Call], ts: float) -> Call | None:
    """Of the calls of one thread the one that runs at a moment and has none inside that does."""
    position = bisect_right(calls, ts, key=lambda call: call.event["ts"]) - 1
    # What starts before and has ended may stand inside something longer that has not.
    return next((call for call in reversed(calls[: position + 1]) if ts < call.end), None)
