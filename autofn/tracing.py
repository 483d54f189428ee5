"""torch.profiler traces of cases: where the time goes, variant by variant, for TensorBoard and for any Kineto reader.

Where, not how long: the profiler makes a call of 100 us up to twice as long, so no time of a trace is a measurement.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, _ExperimentalConfig, profile, record_function, schedule

from . import registry
from .case import Case, Key, Outputs, prepare
from .records import FAILED, UNAVAILABLE
from .spec import dtype_named
from .trace_files import TraceSummary, load_summaries, write

__all__ = ["ALL", "TraceSummary", "load_summaries", "trace"]

ALL = "all"
WARM_UP = 3  # calls outside the profiler: the first compiles, the second may recompile, the third is as the traced ones
Progress = Callable[[int, int, str], None]


def trace(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    workload: str = "small",
    dtype: str = "float32",
    device: str = "cpu",
    steps: int = 3,
    stacks: bool = True,
    out: str | Path = "traces",
    progress: Progress | None = None,
) -> list[TraceSummary]:
    """Records a run `<out>/<function>/<variant>` for each variant, and `<out>/<function>/all` with all of them.

    functions, variants: names; None takes all there are. stacks: record Python call stacks, which the Module view and
    the call stacks of the Operator view need. progress: called with (runs done, runs in all, what comes next).

    One summary a run comes back, in the order of recording. A variant that cannot run here is "n/a" and one that
    raised is "failed", each with its reason and no trace; `all` is made of those that were traced, if two or more were.
    Whatever Dynamo compiled before is forgotten, before and after: here kernels are compiled with their names.

    Raises LookupError for a name that no selected Function knows, ValueError for another value that makes no sense.
    """
    if steps < 1:
        raise ValueError(f"trace: steps must be 1 or more, got {steps}")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"trace: device must be 'cpu' or 'cuda', got {device!r}")
    plan = _plan(registry.names() if functions is None else functions, variants, workload, dtype)
    total = sum(len(names) + 1 for names in plan.values())
    recorder = _Recorder(steps, stacks, device, Path(out))
    found: list[TraceSummary] = []
    with _one_thread(), _quiet():
        done = 0
        for function, names in plan.items():
            cases: list[Case] = []
            with _named_kernels():
                for name in [*names, ALL]:
                    if progress:
                        progress(done, total, f"{function}/{name}")
                    done += 1
                    key = Key(function, name, workload, dtype, device)
                    if name != ALL:
                        found.append(_traced(recorder, key, cases))
                    elif len(cases) > 1:
                        found.append(_together(recorder, key, cases))
    if progress:
        progress(total, total, "")
    return found


def _plan(functions: Sequence[str], variants: Sequence[str] | None, workload: str, dtype: str) -> dict[str, list[str]]:
    """{function: variants}. A Function may lack a name that another has; one that all lack is a LookupError."""
    wanted = dtype_named(dtype)
    specs = [registry.spec(function) for function in functions]
    if not any(workload in spec.workloads for spec in specs):
        raise registry.unknown("no Function has the workload", workload, _union(spec.workloads for spec in specs))
    if not any(wanted in spec.tolerances for spec in specs):
        raise registry.unknown("no Function has the dtype", dtype, _union(spec.dtypes for spec in specs))
    known = {function: [variant.name for variant in registry.variants(function)] for function in functions}
    for name in variants or ():
        if len(known) == 1:
            registry.variant(functions[0], name)
        elif not any(name in names for names in known.values()):
            raise registry.unknown("no Function has the variant", name, _union(known.values()))
    return {function: list(dict.fromkeys(variants)) if variants else names for function, names in known.items()}


def _union(names: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(name for some in names for name in some))


def _traced(recorder: _Recorder, key: Key, cases: list[Case]) -> TraceSummary:
    """Prepares and records one variant; its case joins `cases` where that went well."""
    try:
        reason = _why_not(key)
        if reason:
            return _summary(key, UNAVAILABLE, reason)
        spec = registry.spec(key.function)
        case = prepare(spec, key, registry.load(key.function, key.variant, key.device))
        found = recorder.record(key, [case])
    # A variant runs anybody's code, and what that raises is its result: the other variants are still to be recorded.
    except Exception as error:
        return _summary(key, FAILED, f"{type(error).__name__}: {error}")
    cases.append(case)
    return found


def _together(recorder: _Recorder, key: Key, cases: Sequence[Case]) -> TraceSummary:
    try:
        return recorder.record(key, cases)
    except Exception as error:  # as in _traced
        return _summary(key, FAILED, f"{type(error).__name__}: {error}")


def _summary(key: Key, status: str, reason: str) -> TraceSummary:
    return TraceSummary(key.function, key.variant, key.workload, key.dtype, key.device, status, reason)


def _why_not(key: Key) -> str | None:
    """Why a case does not exist or cannot run here, or None."""
    spec = registry.spec(key.function)
    try:
        registry.variant(key.function, key.variant)
        spec.tolerance(dtype_named(key.dtype))
    except LookupError as error:
        return str(error)
    if key.workload not in spec.workloads:
        return f"{key.function} has no workload {key.workload!r}; it has {', '.join(spec.workloads)}"
    return registry.unavailable(key.function, key.variant, key.device)


@dataclass(frozen=True)
class _Recorder:
    steps: int
    stacks: bool
    device: str
    out: Path

    def record(self, key: Key, cases: Sequence[Case]) -> TraceSummary:
        """Warms the cases by the very calls that are recorded, records them, one after the other in each step, and
        writes the run folder.
        """
        runs = [_Run(case) for case in cases]
        for _ in range(WARM_UP):
            for run in runs:
                run.forward_and_backward()
        with self._profiler() as profiler:
            for _ in range(1 + self.steps):
                for run in runs:
                    run.forward_and_backward()
                profiler.step()
        summary = TraceSummary(
            key.function,
            key.variant,
            key.workload,
            key.dtype,
            key.device,
            torch=torch.__version__,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            steps=self.steps,
            stacks=self.stacks,
        )
        with tempfile.TemporaryDirectory(prefix="autofn-trace-") as temporary:
            exported = Path(temporary) / "trace.json"
            profiler.export_chrome_trace(str(exported))
            return write(summary, exported, self.out)

    def _profiler(self) -> profile:
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self.device == "cuda" else [])]
        return profile(
            activities=activities,
            # Without repeat=1 the last step would open a second cycle, and with it a second, empty trace.
            schedule=schedule(wait=0, warmup=1, active=self.steps, repeat=1),
            record_shapes=True,
            profile_memory=True,
            with_stack=self.stacks,
            # Writes the call stack beside each operator, where the Operator view looks for it.
            experimental_config=_ExperimentalConfig(verbose=True),
        )


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
