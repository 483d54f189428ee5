"""The ways to time a phase on a device. Each function says what its time includes; they differ in what they leave out.

wall          what the host waits: `phases.py`, with the device synchronised. The only way on the CPU.
events-warm   the device's time from the first call's start to the last one's end, the L2 as the calls leave it.
events-cold   the same of each call alone, the L2 flushed before the forward, and between forward and backward.
graph         a replay of the device work alone, from a CUDA graph: no Python, no dispatch, no allocation.

No way accumulates a gradient, and none uses an autograd graph twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..case import Case
from ..terms import unknown
from . import phases
from .device_clock import DeviceClock
from .device_events import COLD, WARM, Sample
from .graph_replay import STEPS, Replay
from .protocols import CACHE, WALL


def samplers(device: str, ways: Iterable[str]) -> dict[str, dict[str, Sample]]:
    """way -> phase -> the sample, for a device type. Hold on to it: a `graph` keeps what it has captured.

    Of a way that `device` does not have, every sample raises NotImplementedError: it is n/a. Raises LookupError for an
    unknown way.
    """
    ways = tuple(ways)
    for way in ways:
        if way not in CACHE:
            raise unknown("there is no way", way, CACHE)
    return {way: _of(way) if way == WALL or device == "cuda" else _unavailable(way, device) for way in ways}


def _of(way: str) -> dict[str, Sample]:
    if way == "graph":
        return {phase: Replay(steps) for phase, steps in STEPS.items()}
    # A sample for any clock is one for a device's.
    tables: dict[str, Mapping[str, Sample]] = {WALL: phases.SAMPLE, "events-warm": WARM, "events-cold": COLD}
    return dict(tables[way])


def _unavailable(way: str, device: str) -> dict[str, Sample]:
    def sample(case: Case, number: int, clock: DeviceClock) -> float:
        raise NotImplementedError(f"{way}: needs a CUDA device's clock, and the device is {device}")

    return dict.fromkeys(phases.SAMPLE, sample)
