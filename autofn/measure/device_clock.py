"""What a sample needs of a device: marks on its timeline, a flush of its L2 cache, graphs, and the state it is in.

A `DeviceClock` is a Protocol, so that samples can be tested where there is no device. `CudaClock` is the one of CUDA.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch

from .device_state import State, read_nvml

if TYPE_CHECKING:
    from ..case import Case

Step = Callable[[], None]

# Writing as many bytes as the L2 holds would leave some of the old lines, for it is not replaced in perfect order.
FLUSH_L2S = 2
# As torch.cuda.make_graphed_callables: libraries set themselves up lazily, which a capture does not allow.
CAPTURE_WARM_CALLS = 3


class DeviceClock(Protocol):
    """A device as one that takes time. What is asked of it waits in a queue: the host goes on at once."""

    def __call__(self) -> float:
        """Seconds on the host's clock, so that a DeviceClock is a clock for `phases.SAMPLE` too."""

    def mark(self) -> Any:
        """A mark behind all that was asked of the device so far; it marks the start and the end alike."""

    def elapsed(self, begin: Any, end: Any) -> float:
        """Seconds of the device between two marks, once it has been synchronised."""

    def synchronise(self) -> None:
        """Waits until the device has done all that was asked of it."""

    def flush(self) -> None:
        """Asks the device to fill its L2 cache with something else."""

    def capture(self, *steps: Step) -> tuple[Step, ...]:
        """A replay of each step's device work, without its host work. They share memory: replay all, in order.

        Raises RuntimeError where a step does what cannot be captured, such as waiting for the device.
        """

    def state(self) -> State:
        """The clocks, the temperature and what holds the clocks down, now."""


class CudaClock:
    """Marks are CUDA events on the current stream of `device`; work on streams that do not join it is not seen."""

    def __init__(self, device: torch.device) -> None:
        index = device.index if device.index is not None else torch.cuda.current_device()
        self.device = torch.device("cuda", index)

    def __call__(self) -> float:
        return time.perf_counter()

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        # Guards the device by itself, at less cost than a guard from Python, which would be between the marks.
        event.record(torch.cuda.current_stream(self.device))
        return event

    def elapsed(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        return begin.elapsed_time(end) * 1e-3

    def synchronise(self) -> None:
        torch.cuda.synchronize(self.device)

    def flush(self) -> None:
        self._scratch.zero_()

    @cached_property
    def _scratch(self) -> torch.Tensor:
        held = torch.cuda.get_device_properties(self.device).L2_cache_size
        if held <= 0:
            raise NotImplementedError(f"{self.device} does not tell the size of its L2 cache, so it cannot be flushed")
        return torch.empty(FLUSH_L2S * held, dtype=torch.int8, device=self.device)

    def capture(self, *steps: Step) -> tuple[Step, ...]:
        with torch.cuda.device(self.device):
            side, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
            side.wait_stream(torch.cuda.current_stream())
            # Around the capture too: torch.cuda.graph leaves its stream current where ending a capture fails.
            with torch.cuda.stream(side):
                for _ in range(CAPTURE_WARM_CALLS):
                    for step in steps:
                        step()
                replays = tuple(_captured(step, side, pool) for step in steps)
            torch.cuda.current_stream().wait_stream(side)
        return replays

    def state(self) -> State:
        if torch.version.hip:
            return State(unknown="clocks are read through NVML, which ROCm does not have")
        try:
            nvml = importlib.import_module("pynvml")
        except ModuleNotFoundError:
            return State(unknown="clocks are read through nvidia-ml-py (pynvml), which is not installed")
        try:
            nvml.nvmlInit()
            # By its UUID: NVML numbers the devices without CUDA_VISIBLE_DEVICES.
            uuid = str(torch.cuda.get_device_properties(self.device).uuid).removeprefix("GPU-")
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except nvml.NVMLError as error:
            return State(unknown=f"NVML: {error}")
        return read_nvml(nvml, handle)


def _captured(step: Step, stream: torch.cuda.Stream, pool: Any) -> Step:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        step()
    replay: Step = graph.replay
    return replay


def clock_of(case: Case) -> CudaClock:
    """The clock of the device that the case's inputs are on. Raises NotImplementedError where that is none of CUDA."""
    for value in case.inputs:
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return CudaClock(value.device)
    raise NotImplementedError(f"{case.key}: no input is on a CUDA device, so there is no device to be clocked")
