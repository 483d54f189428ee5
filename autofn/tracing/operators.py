"""A trace summed into operators and kernels: by variant and phase, what ran, how often, and where the time went."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from .events import OPERATOR, PROFILED, Call, Event, Phases, complete, innermost, nested

COLUMNS = (
    "function",
    "variant",
    "phase",
    "name",
    "calls",
    "self_time_s",
    "low_s",
    "high_s",
    "total_time_s",
    "launches",
    "kernel_time_s",
    "input_shapes",
    "clock",
)
# Each is registered for the device, and touches no element of a tensor.
ALLOCATIONS = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}
# One function for all devices, such as aten::copy_, which has a loop of its own, and aten::clone, which has not.
COMPOSITE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@dataclass(frozen=True)
class _Kernels:
    """What a call launched itself."""

    launches: int = 0
    us: float = 0.0


@dataclass
class _Sum:
    """Of one operator on inputs of one shape in one phase, over all steps."""

    calls: int = 0
    total_us: float = 0.0
    launches: int = 0
    kernels_us: float = 0.0
    self_us: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, call: Call, step: int, kernels: _Kernels) -> None:
        self.calls += 1
        self.total_us += call.event["dur"]
        self.self_us[step] += call.self_us
        self.launches += kernels.launches
        self.kernels_us += kernels.us


def operators(events: Sequence[Event], function: str, device: str) -> list[dict[str, Any]]:
    """One row a (variant, phase, operator, input shapes) with the columns COLUMNS, summed over all steps.

    self_time_s excludes operators called inside, total_time_s includes them; low_s and high_s are the least and the
    most own time in one step. launches, kernel_time_s: of the kernels that the operator itself launched. On CUDA these
    are the device's. On the CPU nothing records a kernel's start: there each call of a compiled kernel, of an operator
    that is registered for the CPU, or of a composite one without such inside is a launch, and its own time, dispatch
    included, is the kernel's.
    """
    phases = Phases(events, function)
    threads = nested(events, OPERATOR)
    calls = [call for found in threads.values() for call in found]
    kernels = _cpu_kernels(calls) if device == "cpu" else _cuda_kernels(events, threads)
    sums: dict[tuple[str, str, str, str], _Sum] = defaultdict(_Sum)
    for call in calls:
        span = phases.at(call.event["ts"])
        if span:
            shapes = json.dumps(call.event.get("args", {}).get("Input Dims", []))
            found = sums[span.variant, span.phase, call.event["name"], shapes]
            found.add(call, span.step, kernels.get(call, _Kernels()))
    return [_row(function, *key, found) for key, found in sums.items()]


def _row(function: str, variant: str, phase: str, name: str, shapes: str, found: _Sum) -> dict[str, Any]:
    return {
        "function": function,
        "variant": variant,
        "phase": phase,
        "name": name,
        "calls": found.calls,
        "self_time_s": sum(found.self_us.values()) / 1e6,
        "low_s": min(found.self_us.values()) / 1e6,
        "high_s": max(found.self_us.values()) / 1e6,
        "total_time_s": found.total_us / 1e6,
        "launches": found.launches,
        "kernel_time_s": found.kernels_us / 1e6,
        "input_shapes": shapes,
        "clock": PROFILED,
    }


def _cpu_kernels(calls: Iterable[Call]) -> dict[Call, _Kernels]:
    return {call: _Kernels(1, call.self_us) for call in calls if _is_kernel(call)}


def _is_kernel(call: Call) -> bool:
    """An operator that calls itself was differentiated first: the inner call is the kernel's."""
    name = call.event["name"]
    if compiled_kernel(name) or (
        _registered(name, ("CPU",)) and all(name != each.event["name"] for each in call.inner)
    ):
        return True
    return _registered(name, COMPOSITE) and not any(map(_is_kernel, call.all_inside()))


@cache
def _registered(name: str, keys: tuple[str, ...]) -> bool:
    """Whether an operator is registered so, and goes through the elements of tensors: no view, no allocation."""
    match = re.fullmatch(r"(\w+)::(\w+)", name)
    packet = getattr(getattr(torch.ops, match[1]), match[2], None) if match else None
    if packet is None or name in ALLOCATIONS:
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    # Some are TorchScript's alone: the dispatcher, asked for their kernels, raises.
    known = [each for each in overloads if not each.is_view and torch._C._dispatch_has_kernel(each.name())]
    found = [getattr(torch._C.DispatchKey, key) for key in keys]
    return any(each.has_kernel_for_dispatch_key(key) for each in known for key in found)


def compiled_kernel(name: str) -> str | None:
    """The name of a CPU kernel that Inductor compiled, without `graph_3_`, which counts what was compiled before it."""
    match = re.fullmatch(r"(?:graph_\d+_)?(cpp_\w+)", name)
    return match[1] if match else None


def _cuda_kernels(events: Sequence[Event], threads: dict[tuple[Any, Any], list[Call]]) -> dict[Call, _Kernels]:
    """By the call inside which the host launched them; by Kineto's id of it where the trace lacks the launch."""
    by_id = {
        call.event["args"]["External id"]: call
        for calls in threads.values()
        for call in calls
        if "External id" in call.event.get("args", {})
    }
    found: dict[Call, _Kernels] = {}
    for kernel, launch in _cuda_launches(events):
        if launch is None:
            call = by_id.get(kernel["args"].get("External id"))
        else:
            call = innermost(threads.get((launch["pid"], launch["tid"]), []), launch["ts"])
        if call is not None:
            before = found.get(call, _Kernels())
            found[call] = _Kernels(before.launches + 1, before.us + kernel["dur"])
    return found


def _cuda_launches(events: Sequence[Event]) -> Iterator[tuple[Event, Event | None]]:
    """Each kernel with the runtime call that launched it, which is when and where it belongs: it may run much later."""
    launches = {event["args"].get("correlation"): event for event in complete(events, "runtime") if "args" in event}
    for event in events:
        if event.get("cat") == "kernel":
            yield {"args": {}, **event}, launches.get(event.get("args", {}).get("correlation"))


def kernels(events: Sequence[Event], function: str, device: str) -> dict[tuple[str, str], dict[str, float]]:
    """{(variant, phase): {kernel: launches in one call}}, of the phases in which a kernel with a name was launched."""
    phases = Phases(events, function)
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for ts, name in _named_on_cpu(events) if device == "cpu" else _named_on_cuda(events):
        span = phases.at(ts)
        if span:
            counts[span.variant, span.phase][name] += 1
    return {
        where: {name: _per_call(launches, phases.calls[where]) for name, launches in sorted(found.items())}
        for where, found in counts.items()
    }


def _named_on_cpu(events: Iterable[Event]) -> Iterator[tuple[float, str]]:
    for event in complete(events, OPERATOR):
        name = compiled_kernel(event["name"])
        if name:
            yield event["ts"], name


def _named_on_cuda(events: Sequence[Event]) -> Iterator[tuple[float, str]]:
    for kernel, launch in _cuda_launches(events):
        yield (launch or kernel)["ts"], kernel["name"]


def _per_call(launches: int, calls: int) -> float:
    return launches // calls if launches % calls == 0 else launches / calls
