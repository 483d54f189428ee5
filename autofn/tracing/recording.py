"""Recording: cases under torch.profiler, their phases labelled, one run a variant and one of all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import torch

from ..case import Case, Key, explaining, prepare
from ..records import FAILED, UNAVAILABLE
from ..sources import told
from ..spec import dtype_named
from ..terms import unknown
from . import kept
from .files import ALL, TraceSummary, load_summaries, write
from .profiling import Step, memory_snapshot, named_kernels, one_thread, profiler, quiet
from .request import Request

WARM_UP = 3  # calls outside the profiler: the first compiles, the second may recompile, the third is as the traced ones
# Recorded, and left out: in the first of them a call of 60 us takes 3 to 4 times as long, from the fourth on 1.5 times.
SETTLING = 3
Progress = Callable[[int, int, str], None]


def record(request: Request, registry: ModuleType, progress: Progress) -> list[TraceSummary]:
    """The runs of a request, one summary each; see `trace`. registry: that of the package whose Functions are traced.

    Raises LookupError for a name that no selected Function knows.
    """
    plan = _plan(request, request.functions or registry.names(), registry)
    total = sum(len(names) + 1 for names in plan.values())
    lying = kept.by_run(load_summaries(request.out) if request.missing else ())
    found: list[TraceSummary] = []
    done = 0
    with one_thread(), quiet():
        for function, names in plan.items():
            there = _there(request, registry, function, names, lying) if lying else []
            if there:
                found += there
                done += len(names) + 1
                continue
            cases: list[Case] = []
            with named_kernels():
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


def _there(
    request: Request, registry: ModuleType, function: str, names: Sequence[str], lying: kept.Kept
) -> list[TraceSummary]:
    """What would come back if the Function were recorded, from what lies there; [] where anything is missing."""
    reasons = {name: _why_not(registry, request.key(function, name)) for name in names}
    runs = kept.runs_of(function, [name for name in names if reasons[name] is None], request, lying)
    lacking = [_summary(request.key(function, name), UNAVAILABLE, why) for name, why in reasons.items() if why]
    return [*lacking, *runs] if runs else []


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
        with explaining(case):
            found = _recorded(request, key, [case])
    # A variant runs anybody's code, and what that raises is its result: the other variants are still to be recorded.
    except Exception as error:
        return _summary(key, FAILED, told(error))
    cases.append(case)
    return found


def _together(request: Request, key: Key, cases: Sequence[Case]) -> TraceSummary:
    try:
        return _recorded(request, key, cases)
    except Exception as error:  # as in _traced
        return _summary(key, FAILED, told(error))


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
    step = Step(cases)
    for _ in range(WARM_UP):
        step()
    untraced_s = min(step() for _ in range(SETTLING + request.steps))
    with profiler(steps=SETTLING + request.steps, stacks=request.stacks, device=request.device) as recorder:
        traced_s = []
        for _ in range(1 + SETTLING + request.steps):
            traced_s.append(step())
            recorder.step()
    summary = TraceSummary(
        key.function,
        key.variant,
        key.workload,
        key.dtype,
        key.device,
        commit=request.commit,
        code=request.code,
        torch=torch.__version__,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        steps=request.steps,
        stacks=request.stacks,
        slowdown=round(min(traced_s[-request.steps :]) / untraced_s, 2),
    )
    with tempfile.TemporaryDirectory(prefix="autofn-trace-") as temporary:
        exported = Path(temporary) / "trace.json"
        recorder.export_chrome_trace(str(exported))
        memory = memory_snapshot(step) if request.memory else b""
        return write(summary, exported, Path(request.out), flame=request.flame, memory=memory)
