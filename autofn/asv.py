"""Suites for airspeed velocity: a class a Function, parametrised by variant, workload, dtype and device.

asv takes the suites from the working tree for every commit; what a commit lacks is skipped with its reason. The suites
import no torch: one `setup_cache` a Function measures all of its cases in a worker process, journals them as they end,
and asv's benchmarks only hand over the samples.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .asv_axes import AXES, DEVICES, DTYPES, MEMORY, PHASES, WORKLOADS, Declared, declared

# The slowest setup_cache known: every case of a Function at the profile `full`, compiled from cold.
SETUP_CACHE_TIMEOUT_S = 3600

Cases = Mapping[str, Any]


def timing(root: Path | None = None) -> dict[str, type]:
    """One class a Function, for `benchmarks/timing.py`: its methods return samples in seconds."""
    methods = {f"{phase}_time": _sampled(phase) for phase in PHASES}
    return {found.name: _suite(found, methods, root) for found in declared(root)}


def memory(root: Path | None = None) -> dict[str, type]:
    """One class a Function, for `benchmarks/memory.py`: its methods return bytes."""
    methods = {metric: _counted(metric) for metric in MEMORY}
    return {found.name: _suite(found, methods, root) for found in declared(root)}


def _suite(found: Declared, methods: Mapping[str, Callable[..., Any]], root: Path | None) -> type:
    axes = [found.axis, [*WORKLOADS], [*DTYPES], [*DEVICES]]
    attributes = {
        "param_names": [*AXES],
        "params": axes,
        "version": found.version,
        "setup_cache": _setup_cache(found, own=root is not None),
        **methods,
    }
    return type(found.name, (), attributes)


def _setup_cache(found: Declared, own: bool) -> staticmethod[[], Cases]:
    """A `setup_cache` of the Function's own: asv keys caches by module and line, so each needs a module's name."""

    def setup_cache() -> Cases:
        from .asv_run import sample

        return sample(found.name, found.version, own=own)

    module = f"{__name__}.{found.name}"
    sys.modules.setdefault(module, ModuleType(module))
    setup_cache.__module__ = module
    setup_cache.timeout = SETUP_CACHE_TIMEOUT_S  # type: ignore[attr-defined]
    return staticmethod(setup_cache)


def _sampled(phase: str) -> Callable[..., dict[str, Any]]:
    def benchmark(self: Any, cases: Cases, *case: str) -> dict[str, Any]:
        found = _look_up(cases, case, phase, "time_s")
        return {"samples": found["samples"], "number": found["number"]}

    return benchmark


def _counted(metric: str) -> Callable[..., float]:
    def benchmark(self: Any, cases: Cases, *case: str) -> float:
        value: float = _look_up(cases, case, "forward", metric)["value"]
        return value

    return benchmark


def _look_up(cases: Cases, case: Sequence[str], phase: str, metric: str) -> dict[str, Any]:
    """What was measured. Raises SkipNotImplemented for n/a (asv stores NaN), RuntimeError for failed (null)."""
    from asv_runner.benchmarks.mark import SkipNotImplemented

    found: dict[str, Any] | None = cases["found"].get((*case, phase, metric))
    if found is None:
        raise SkipNotImplemented(cases["otherwise"])
    if found["status"] == "n/a":
        raise SkipNotImplemented(found["reason"])
    if found["status"] == "failed":
        raise RuntimeError(found["reason"])
    return found


def register_benchmark_types() -> None:
    """Makes asv take `<phase>_time` and `*_bytes` methods for benchmarks whose results it stores as they are."""
    import asv_runner.benchmarks as types
    from asv_runner.benchmarks._base import Benchmark

    class HandedOver(Benchmark):
        def run(self, *case: Any) -> Any:
            return self.func(*case)

    class Time(HandedOver):
        name_regex = re.compile(rf"^({'|'.join(PHASES)})_time$")

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.type, self.unit = "time", "seconds"

    class Bytes(HandedOver):
        name_regex = re.compile(rf"^({'|'.join(MEMORY)})$")

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.type, self.unit = "memory", "bytes"

    # asv_runner's discovery reads this very list; a plug-in distribution would need installing in every environment.
    types.benchmark_types[:0] = [Time, Bytes]
