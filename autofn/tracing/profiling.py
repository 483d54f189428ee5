"""Steps whose phases are labelled, and the profiler that records them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function, schedule

from ..case import Case, Outputs


def memory_snapshot(step: Callable[[], object]) -> bytes:
    """What CUDA's allocator did during one step, with call stacks: for https://docs.pytorch.org/memory_viz."""
    with tempfile.TemporaryDirectory(prefix="autofn-trace-") as temporary:
        path = Path(temporary) / "memory"
        torch.cuda.memory._record_memory_history()
        try:
            step()
            torch.cuda.memory._dump_snapshot(str(path))
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        return path.read_bytes()


def profiler(*, steps: int, stacks: bool, device: str) -> profile:
    """One whose first step is a warm-up of its own, and whose others are recorded."""
    return profile(
        activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])],
        # Without repeat=1 the last step would open a second cycle, and with it a second, empty trace.
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=stacks,
        # Writes the call stack beside each operator, where the Operator view looks for it.
        experimental_config=_ExperimentalConfig(verbose=True),
    )


class Step:
    """One forward and backward of each case; a call gives back the seconds that it took."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.runs = [_Run(case) for case in cases]

    def __call__(self) -> float:
        begin = time.perf_counter()
        for run in self.runs:
            run.forward_and_backward()
        return time.perf_counter() - begin


class _Run:
    """A case whose phases are labelled. Its forward is a module's, for the Module view shows nothing else."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.label = f"{case.key.function}/{case.key.variant}"
        self.forward: _Forward = type(self.label, (_Forward,), {})(case)

    def forward_and_backward(self) -> None:
        with record_function(f"{self.label}/forward"):
            outputs = self.forward()
            self.case.synchronise()
        with record_function(f"{self.label}/backward"):
            self.case.backward(outputs)
            self.case.synchronise()


class _Forward(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self) -> Outputs:
        return self.case.forward()


@contextmanager
def named_kernels() -> Iterator[None]:
    """Inside, Inductor compiles CPU kernels that record themselves by name; code compiled outside is not used inside,
    nor the other way round.
    """
    import torch._inductor.config as inductor

    torch._dynamo.reset()
    try:
        with inductor.patch({"cpp.enable_kernel_profile": True}):
            yield
    finally:
        torch._dynamo.reset()


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Kineto prints to stderr at each start and stop unless told otherwise before the process's first recording."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]
