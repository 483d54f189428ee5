"""The state a device was in while a sample was taken: its clocks, and what holds them down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

# nvml.h, nvmlClocksEventReasons. Left out, for these slow nothing down: idle (0x1), and the clocks that somebody set
# for applications (0x2) or a display needs (0x100).
THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "another device of its sync boost group",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


@dataclass(frozen=True)
class State:
    """What the driver says of a device. None: it does not say, and `unknown` holds why.

    throttle: what holds its clocks down, of THROTTLES; () where nothing does.
    """

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] | None = None
    unknown: str = ""


def read_nvml(nvml: ModuleType, handle: Any) -> State:
    """The state of one device; what it does not support is None, and the others are there all the same."""
    asked = {
        "sm_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        # The name that old drivers know too; newer ones call the same clocksEventReasons.
        "throttle": lambda: throttles(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    }
    found: dict[str, Any] = {}
    unknown = []
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except nvml.NVMLError as error:
            unknown.append(f"{name}: {error}")
    return State(**found, unknown="; ".join(unknown))


def throttles(bits: int) -> tuple[str, ...]:
    """The words of THROTTLES for NVML's bits."""
    return tuple(word for bit, word in THROTTLES.items() if bits & bit)


@dataclass(frozen=True)
class Watched:
    """Seconds of a sample, and the state of the device before and after it."""

    seconds: float
    before: State
    after: State


def from_message(message: Mapping[str, Any]) -> Watched:
    """What was watched in another process, from its fields as plain data."""
    return Watched(message["seconds"], State(**message["before"]), State(**message["after"]))


def watched(sample: Callable[[], float], state: Callable[[], State]) -> Watched:
    """Seconds of a sample, with the device's state before and after it, which is read outside the time."""
    before = state()
    seconds = sample()
    return Watched(seconds, before, state())


def detail(samples: Sequence[Watched]) -> dict[str, Any]:
    """What a Record's `detail` says of the device's state; no sample is left out for it.

    throttled: which samples were taken while something held the clocks down, by their place in the Record's `samples`;
    None where the driver tells of none. throttle: what held them. *_mhz, temperature_c: the lowest and the highest
    seen. state_unknown: why something is not known.
    """
    states = [(sample.before, sample.after) for sample in samples]
    every = [state for pair in states for state in pair]
    told = any(state.throttle is not None for state in every)
    found: dict[str, Any] = {
        "throttled": [place for place, pair in enumerate(states) if any(state.throttle for state in pair)]
        if told
        else None,
        "throttle": sorted({word for state in every for word in state.throttle or ()}),
    }
    for name in ("sm_mhz", "memory_mhz", "temperature_c"):
        values = [getattr(state, name) for state in every if getattr(state, name) is not None]
        if values:
            found[name] = [min(values), max(values)]
    unknown = sorted({state.unknown for state in every if state.unknown})
    return {**found, "state_unknown": "; ".join(unknown)} if unknown else found
