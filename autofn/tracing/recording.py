"""Recording: cases under torch.profiler, their phases labelled, one run a variant and one of all of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import torch
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function, schedule

from ..case import Case, Key, Outputs, prepare
from ..records import FAILED, UNAVAILABLE
from ..registry import unknown
from ..spec import dtype_named
from .files import ALL, TraceSummary, write

WARM_UP = 3  # calls outside the profiler: the first compiles, the second may recompile, the third is as the traced ones
# Recorded, and left out: in the first of them a call of 60 us takes 3 to 4 times as long, from the fourth on 1.5 times.
SETTLING = 3
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Request:
    """What is recorded, and where to. functions, variants: () for all that there are. commit: of the traced package.

    flame, memory: also a flame graph, and on CUDA a snapshot of the allocator. Raises ValueError for what makes no
    sense.
    """

    functions: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    workload: str = "small"
    dtype: str = "float32"
    device: str = "cpu"
    steps: int = 3
    stacks: bool = True
    flame: bool = False
    memory: bool = False
    out: str = "traces"
    commit: str = ""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"trace: steps must be 1 or more, got {self.steps}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"trace: device must be 'cpu' or 'cuda', got {self.device!r}")
        if self.memory and self.device != "cuda":
            raise ValueError(
                "trace: a memory snapshot is of CUDA's allocator, got device 'cpu'; the Memory view shows the CPU's"
            )

    def key(self, function: str, variant: str) -> Key:
        return Key(function, variant, self.workload, self.dtype, self.device)


def record(request: Request, registry: ModuleType, progress: Progress) -> list[TraceSummary]:
    """The runs of a request, one summary each; see `trace`. registry: that of the package whose Functions are traced.

    Raises LookupError for a name that no selected Function knows.
    """
    plan = _plan(request, request.functions or registry.names(), registry)
    total = sum(len(names) + 1 for names in plan.values())
    found: list[TraceSummary] = []
    done = 0
    with _one_thread(), _quiet():
        for function, names in plan.items():
            cases: list[Case] = []
            with _named_kernels():
                for name in [*names, ALL]:
                    progress(done, total, f"{function}/{name}")
                    done += 1
                    key = request.key(function, name)
                    if name != ALL:
                        found.append(_traced(request, registry, key, cases))
                    elif len(cases) > 1:
                        found.append(_together(request, key, cases))
    progress(total, total, "")
    return found


def _plan(request: Request, functions: Sequence[str], registry: ModuleType) -> dict[str, list[str]]:
    """{function: variants}. A Function may lack a name that another has; one that all lack is a LookupError."""
    wanted = dtype_named(request.dtype)
    specs = [registry.spec(function) for function in functions]
    if not any(request.workload in spec.workloads for spec in specs):
        raise unknown("no Function has the workload", request.workload, _union(spec.workloads for spec in specs))
    if not any(wanted in spec.tolerances for spec in specs):
        raise unknown("no Function has the dtype", request.dtype, _union(spec.dtypes for spec in specs))
    known = {function: [found.name for found in registry.variants(function)] for function in functions}
    for name in request.variants:
        if len(known) == 1:
            registry.variant(functions[0], name)
        elif not any(name in names for names in known.values()):
            raise unknown("no Function has the variant", name, _union(known.values()))
    asked = list(dict.fromkeys(request.variants))
    return {function: asked or names for function, names in known.items()}


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some))


def _traced(request: Request, registry: ModuleType, key: Key, cases: list[Case]) -> TraceSummary:
    """Prepares and records one variant; its case joins `cases` where that went well."""
    try:
        reason = _why_not(registry, key)
        if reason:
            return _summary(key, UNAVAILABLE, reason)
        case = prepare(registry.spec(key.function), key, registry.load(key.function, key.variant, key.device))
        found = _recorded(request, key, [case])
    # A variant runs anybody's code, and what that raises is its result: the other variants are still to be recorded.
    except Exception as error:
        return _summary(key, FAILED, f"{type(error).__name__}: {error}")
    cases.append(case)
    return found


def _together(request: Request, key: Key, cases: Sequence[Case]) -> TraceSummary:
    try:
        return _recorded(request, key, cases)
    except Exception as error:  # as in _traced
        return _summary(key, FAILED, f"{type(error).__name__}: {error}")


def _summary(key: Key, status: str, reason: str) -> TraceSummary:
    return TraceSummary(key.function, key.variant, key.workload, key.dtype, key.device, status, reason)


def _why_not(registry: ModuleType, key: Key) -> str | None:
    """Why a case does not exist or cannot run here, or None."""
    spec = registry.spec(key.function)
    try:
        registry.variant(key.function, key.variant)
        spec.tolerance(dtype_named(key.dtype))
    except LookupError as error:
        return str(error)
    if key.workload not in spec.workloads:
        return f"{key.function} has no workload {key.workload!r}; it has {', '.join(spec.workloads)}"
    reason: str | None = registry.unavailable(key.function, key.variant, key.device)
    return reason


def _recorded(request: Request, key: Key, cases: Sequence[Case]) -> TraceSummary:
    """Records the cases, one after the other in each step, and writes the run's folder.

    They are warmed by the very calls that are recorded.
    """
    step = _Step(cases)
    for _ in range(WARM_UP):
        step()
    untraced_s = min(step() for _ in range(SETTLING + request.steps))
    with _profiler(request) as profiler:
        traced_s = []
        for _ in range(1 + SETTLING + request.steps):
            traced_s.append(step())
            profiler.step()
    summary = TraceSummary(
        key.function,
        key.variant,
        key.workload,
        key.dtype,
        key.device,
        commit=request.commit,
        torch=torch.__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        steps=request.steps,
        stacks=request.stacks,
        slowdown=round(min(traced_s[-request.steps :]) / untraced_s, 2),
    )
    with tempfile.TemporaryDirectory(prefix="autofn-trace-") as temporary:
        exported = Path(temporary) / "trace.json"
        profiler.export_chrome_trace(str(exported))
        memory = memory_snapshot(step) if request.memory else b""
        return write(summary, exported, Path(request.out), flame=request.flame, memory=memory)


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


def _profiler(request: Request) -> profile:
    """One whose first step is a warm-up of its own, and whose others are recorded."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if request.device == "cuda" else [])]
    return profile(
        activities=activities,
        # Without repeat=1 the last step would open a second cycle, and with it a second, empty trace.
        schedule=schedule(wait=0, warmup=1, active=SETTLING + request.steps, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=request.stacks,
        # Writes the call stack beside each operator, where the Operator view looks for it.
        experimental_config=_ExperimentalConfig(verbose=True),
    )


class _Step:
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
def _named_kernels() -> Iterator[None]:
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
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Kineto prints to stderr at each start and stop unless told otherwise before the process's first recording."""
    before = os.environ.get("KINETO_LOG_LEVEL")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    try:
        yield
    finally:
        if before is None:
            del os.environ["KINETO_LOG_LEVEL"]
