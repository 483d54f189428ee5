"""The calls of a trace as a flame graph for https://www.speedscope.app, which also runs without the internet.

Its file format: https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from .events import ANNOTATION, OPERATOR, PYTHON, STEP, Call, Event, nested

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def flame_graph(events: Iterable[Event], name: str) -> dict[str, Any]:
    """Operators, phases and Python calls inside each other: one profile a thread, times in microseconds."""
    frames: dict[str, int] = {}
    # A step begins inside the call that ends the one before, and would seem to end with it.
    calls = (event for event in events if not event["name"].startswith(STEP))
    threads = nested(calls, OPERATOR, PYTHON, ANNOTATION)
    profiles = [_profile(f"{name}, thread {tid}", calls, frames) for (_, tid), calls in threads.items()]
    return {"$schema": SCHEMA, "name": name, "shared": {"frames": list(map(_frame, frames))}, "profiles": profiles}


def _profile(name: str, calls: Sequence[Call], frames: dict[str, int]) -> dict[str, Any]:
    """The calls as openings and closings in order of time; one that outlasts what it is inside of ends with it."""
    found: list[dict[str, Any]] = []
    open_: list[tuple[int, float]] = []

    def close(until: float) -> None:
        while open_ and open_[-1][1] <= until:
            frame, end = open_.pop()
            found.append({"type": "C", "frame": frame, "at": end})

    for call in calls:
        close(call.event["ts"])
        frame = frames.setdefault(call.event["name"], len(frames))
        found.append({"type": "O", "frame": frame, "at": call.event["ts"]})
        open_.append((frame, min(call.end, open_[-1][1]) if open_ else call.end))
    close(float("inf"))
    ends = {"startValue": found[0]["at"], "endValue": found[-1]["at"]}
    return {"type": "evented", "name": name, "unit": "microseconds", **ends, "events": found}


def _frame(name: str) -> dict[str, Any]:
    """Python calls read `file.py(12): function`."""
    match = re.fullmatch(r"(.+)\((\d+)\): (.+)", name)
    return {"name": match[3], "file": match[1], "line": int(match[2])} if match else {"name": name}
