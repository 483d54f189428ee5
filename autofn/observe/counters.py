"""What counts live memory: the extension's allocator, the profiler's reports, or CUDA's own figures.

All three count the bytes that were asked for, not what an allocator rounded them up to. None sees the memory of NumPy
and of other libraries but oneDNN, nor the scratch of compiled kernels.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from .. import extension

MARK = "autofn: mark"


@dataclass(frozen=True)
class Reading:
    """At a mark. live: bytes allocated since the start and not freed; peak: the most live since the last mark."""

    live: int
    peak: int


class Counter(Protocol):
    """Counts between start and stop. What is freed of earlier memory does not lower the count."""

    counted_by: str

    def start(self) -> None:
        """Nothing is live from here on."""

    def mark(self) -> None:
        """Ends a stretch: it becomes a reading."""

    def stop(self) -> list[Reading]:
        """One reading a mark, in order."""


@dataclass
class AllocatorCounter:
    """The extension's counting allocator: exact, in all threads, beside a running profiler. Stays for the process."""

    counted_by: str = "allocator"
    readings: list[Reading] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.native = _native()
        self.native.allocator_install()

    def start(self) -> None:
        self.readings = []
        self.native.allocator_start()

    def mark(self) -> None:
        self.readings.append(Reading(self.native.allocator_live_bytes(), self.native.allocator_peak_bytes()))
        self.native.allocator_reset_peak()

    def stop(self) -> list[Reading]:
        return self.readings


@dataclass
class ProfilerCounter:
    """The allocation events of torch.profiler: works without the extension.

    Blind to what another Python thread allocates or frees (its block then seems to live on), and impossible while a
    profiler already runs in this thread. The autograd engine's own threads are seen.
    """

    counted_by: str = "profiler"

    def start(self) -> None:
        self.profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
        )
        self.profile.start()

    def mark(self) -> None:
        with torch.profiler.record_function(MARK):
            pass

    def stop(self) -> list[Reading]:
        self.profile.stop()
        inner: Any = self.profile.profiler
        roots = inner.kineto_results.experimental_event_tree()
        return list(_readings(sorted(_events(roots), key=lambda event: event.start_time_ns)))


def _events(roots: list[Any]) -> Iterator[Any]:
    for event in roots:
        yield event
        yield from _events(event.children)


def _readings(events: list[Any]) -> Iterator[Reading]:
    """The profiler also reports frees of memory that an earlier profile saw, by a size that may be stale: left out."""
    blocks: dict[int, int] = {}
    live = peak = 0
    for event in events:
        if event.name == MARK:
            yield Reading(live, peak)
            peak = live
            continue
        change = event.extra_fields
        if event.name != "[memory]" or change.device.type != "cpu":
            continue
        if change.alloc_size > 0:
            blocks[change.ptr] = change.alloc_size
            live += change.alloc_size
            peak = max(peak, live)
        else:
            live -= blocks.pop(change.ptr, 0)


@dataclass
class CudaCounter:
    """The caching allocator's statistics of the current device.

    They are totals, so a global that each call overwrites does not show here: what goes hides what comes. Tensors on
    the CPU are not counted. https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html
    """

    counted_by: str = "cuda"
    readings: list[Reading] = field(default_factory=list)

    def __post_init__(self) -> None:
        # The native backend knows what was asked for; memory_allocated() is rounded up to 512 a block. CUDA's
        # asynchronous allocator has the latter only.
        native = torch.cuda.get_allocator_backend() == "native"
        self.statistic = "requested_bytes" if native else "allocated_bytes"

    def start(self) -> None:
        self.readings = []
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        self.before = self._bytes("current")

    def mark(self) -> None:
        torch.cuda.synchronize()
        self.readings.append(Reading(self._bytes("current") - self.before, self._bytes("peak") - self.before))
        torch.cuda.reset_peak_memory_stats()

    def stop(self) -> list[Reading]:
        return self.readings

    def _bytes(self, which: str) -> int:
        return int(torch.cuda.memory_stats()[f"{self.statistic}.all.{which}"])


def counter(device: str) -> Counter:
    """The best counter that there is for a device type. From then on the allocator's counts in this whole process."""
    if device == "cuda":
        return CudaCounter()
    if extension.unavailable() is None and hasattr(_native(), "allocator_install"):
        return AllocatorCounter()
    return ProfilerCounter()


def _native() -> Any:
    return importlib.import_module("autofn._C")
