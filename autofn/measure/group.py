"""Measuring one group: all variants of a Function at one workload, dtype and device, side by side in this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import compiled
from ..case import Case, Key, prepare
from ..records import FAILED, UNAVAILABLE, Record
from . import phases, sampling
from .saved import ledger, saved_bytes, saved_new_bytes
from .statistics import estimate

if TYPE_CHECKING:
    from ..spec import Spec

MEMORY_METRICS = ("saved_bytes", "saved_new_bytes")


@dataclass(frozen=True)
class Group:
    """What the arms of one comparison share."""

    function: str
    workload: str
    dtype: str
    device: str

    def __str__(self) -> str:
        return f"{self.function} {self.workload} {self.dtype} {self.device}"


@dataclass(frozen=True)
class Arm:
    """One variant: how to load it, and whether it must have been compiled. load raises NotImplementedError for n/a."""

    variant: str
    load: Callable[[], Callable[..., Any]]
    compiled: bool


@dataclass(frozen=True)
class Settings:
    """phases: which to time. budget_s: sampling time an arm and phase. before: called with the variant before each of
    its samples and outside the clock, so that a watcher knows who was running when the process died."""

    phases: Sequence[str]
    budget_s: float
    clock: Callable[[], float] = time.perf_counter
    before: Callable[[str], None] = lambda variant: None
    common: Mapping[str, Any] = field(default_factory=dict)


class NotCompiledError(RuntimeError):
    """A variant that must be compiled ran without a graph: its time would be eager's."""


def measure_group(spec: Spec, group: Group, arms: Sequence[Arm], settings: Settings) -> Iterator[Record]:
    """Every record of the group: saved bytes and times of each arm, or the reason why there are none.

    An arm that cannot run is n/a, one that raises is failed; the others are measured all the same.
    """
    compiled.forget()
    ready: dict[str, tuple[Case, dict[str, Any]]] = {}
    for arm in arms:
        settings.before(arm.variant)
        try:
            ready[arm.variant] = _prepare(spec, group, arm, settings)
        except NotImplementedError as error:
            yield from _missing(group, arm.variant, settings, UNAVAILABLE, _without_prefix(error, group, arm))
        except Exception as error:  # whatever a Function raises is its own row, and the others go on
            yield from _missing(group, arm.variant, settings, FAILED, f"{type(error).__name__}: {error}")
    for variant, (case, _) in ready.items():
        settings.before(variant)
        yield from _memory(case, settings)
    for phase in settings.phases:
        yield from _time(ready, phase, settings)


def _prepare(spec: Spec, group: Group, arm: Arm, settings: Settings) -> tuple[Case, dict[str, Any]]:
    """The case, warmed by the very calls that will be timed, and what compiling it took."""
    before = compiled.counts()
    key = Key(group.function, arm.variant, group.workload, group.dtype, group.device)
    case = prepare(spec, key, arm.load())
    for phase in settings.phases:
        sampling.warm_up(partial(_sample, case, phase, settings))
    if not arm.compiled:
        return case, {}
    counts = compiled.counts() - before
    if counts.graphs < 1:
        raise NotCompiledError(f"{group.function} ({arm.variant}): no graph was compiled, so the time would be eager's")
    return case, asdict(counts)


def _sample(case: Case, phase: str, settings: Settings, number: int) -> float:
    return phases.SAMPLE[phase](case, number, settings.clock)


def _memory(case: Case, settings: Settings) -> Iterator[Record]:
    entries = ledger(case)
    detail = {"ledger": [asdict(entry) for entry in entries]}
    yield _record(case.key, "forward", "saved_bytes", "bytes", settings, value=saved_bytes(entries), detail=detail)
    yield _record(case.key, "forward", "saved_new_bytes", "bytes", settings, value=saved_new_bytes(entries))


def _time(ready: Mapping[str, tuple[Case, dict[str, Any]]], phase: str, settings: Settings) -> Iterator[Record]:
    failures: dict[str, str] = {}
    arms = {}
    for variant, (case, _) in ready.items():
        sample = _guarded(case, phase, settings, failures)
        arms[variant] = sample, sampling.calls_per_sample(sampling.warm_up(sample))
    for variant, samples in sampling.interleave(arms, settings.budget_s).items():
        case, compilation = ready[variant]
        if variant in failures:
            yield _record(case.key, phase, "time_s", "s", settings, status=FAILED, reason=failures[variant])
            continue
        found = estimate(samples.times_s)
        yield _record(
            case.key, phase, "time_s", "s", settings,
            value=found.value, low=found.low, high=found.high, samples=samples.times_s, number=samples.number,
            processes=1, protocol=phases.PROTOCOL[phase], detail={"compiled": compilation} if compilation else {},
        )  # fmt: skip


def _guarded(case: Case, phase: str, settings: Settings, failures: dict[str, str]) -> sampling.Sample:
    """A sample that notes an exception and goes on, so that one arm does not end the others."""

    def sample(number: int) -> float:
        if case.key.variant in failures:
            return 0.0
        settings.before(case.key.variant)
        try:
            return _sample(case, phase, settings, number)
        except Exception as error:  # as in measure_group
            failures[case.key.variant] = f"{type(error).__name__}: {error}"
            return 0.0

    return sample


def _missing(group: Group, variant: str, settings: Settings, status: str, reason: str) -> Iterator[Record]:
    key = Key(group.function, variant, group.workload, group.dtype, group.device)
    for metric in MEMORY_METRICS:
        yield _record(key, "forward", metric, "bytes", settings, status=status, reason=reason)
    for phase in settings.phases:
        yield _record(key, phase, "time_s", "s", settings, status=status, reason=reason)


def _without_prefix(error: Exception, group: Group, arm: Arm) -> str:
    return str(error).removeprefix(f"{group.function} ({arm.variant}): ")


def _record(key: Key, phase: str, metric: str, unit: str, settings: Settings, **values: Any) -> Record:
    return Record(**asdict(key), phase=phase, metric=metric, unit=unit, **values, **settings.common)
