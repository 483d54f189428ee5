"""Suites for airspeed velocity: a class a Function, parametrised by variant, workload, dtype and device.

asv takes the suites from the working tree for every commit. So which Functions exist is read from the folders beside
this file, never from the package of the commit under test; what that one lacks is skipped with its reason. The suites
import no torch: one `setup_cache` a Function measures all of its cases in a worker process, journals them as they end,
and asv's benchmarks only hand over the samples.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

FUNCTIONS = Path(__file__).parent / "functions"

# Axes and their values are only ever appended to: results of other commits are joined by them.
VARIANTS = ("eager", "compile", "native", "python", "fused", "cpp", "triton")
# What a Function has without a file of its own.
DERIVED = VARIANTS[:2]
WORKLOADS = ("tiny", "small", "large")
DTYPES = ("float32", "bfloat16", "float64", "float16")
DEVICES = ("cpu", "cuda")
AXES = ("variant", "workload", "dtype", "device")

PHASES = ("forward", "backward", "forward_backward")
MEMORY = ("saved_bytes", "saved_new_bytes", "held_bytes")

# The slowest setup_cache known: every case of a Function at the profile `full`, compiled from cold.
SETUP_CACHE_TIMEOUT_S = 3600

Cases = Mapping[str, Any]


def names() -> list[str]:
    """The Functions of the working tree: the folders that hold an `__init__.py`."""
    return sorted(path.parent.name for path in FUNCTIONS.glob("*/__init__.py"))


def version(name: str) -> str:
    """`Spec.version` of the working tree's Function, read from its source: importing it would need torch."""
    tree = ast.parse((FUNCTIONS / name / "__init__.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Spec":
            for keyword in node.keywords:
                if keyword.arg == "version" and isinstance(keyword.value, ast.Constant):
                    return str(keyword.value.value)
    raise ValueError(f"{name}: Spec(version=...) must be a literal string, found none; asv reads it from the source")


def variants(name: str) -> list[str]:
    """The variant axis: the kinds, then the further variants that the folder holds, such as python_combined."""
    files = {path.stem for path in (FUNCTIONS / name).glob("*.py")}
    return [*VARIANTS, *sorted(stem for stem in files if stem.startswith(tuple(f"{kind}_" for kind in VARIANTS)))]


def written(name: str) -> list[str]:
    """Of the variant axis, what the Function's folder holds, and what every Function has."""
    files = {path.stem for path in (FUNCTIONS / name).glob("*.py")}
    return [variant for variant in variants(name) if variant in files or variant in DERIVED]


def selected(patterns: Sequence[str]) -> list[str]:
    """The Functions of which asv runs something for `--bench` with these regular expressions; all without any."""
    return [
        name
        for name in names()
        if not patterns or any(re.search(pattern, text) for text in _texts(name) for pattern in patterns)
    ]


def _texts(name: str) -> Iterator[str]:
    """What asv matches against: each benchmark with its parameters."""
    methods = [*(f"timing.{name}.{phase}_time" for phase in PHASES), *(f"memory.{name}.{metric}" for metric in MEMORY)]
    for method, *case in itertools.product(methods, variants(name), WORKLOADS, DTYPES, DEVICES):
        yield f"{method}({', '.join(map(repr, case))})"


def timing() -> dict[str, type]:
    """One class a Function, for `benchmarks/timing.py`: its methods return samples in seconds."""
    methods = {f"{phase}_time": _sampled(phase) for phase in PHASES}
    return {name: _suite(name, methods) for name in names()}


def memory() -> dict[str, type]:
    """One class a Function, for `benchmarks/memory.py`: its methods return bytes."""
    return {name: _suite(name, {metric: _counted(metric) for metric in MEMORY}) for name in names()}


def _suite(name: str, methods: Mapping[str, Callable[..., Any]]) -> type:
    workloads = [*WORKLOADS]
    axes = [variants(name), workloads, [*DTYPES], [*DEVICES]]
    attributes = {
        "param_names": [*AXES],
        "params": axes,
        "version": version(name),
        "setup_cache": _setup_cache(name),
        **methods,
    }
    return type(name, (), attributes)


def _setup_cache(name: str) -> staticmethod[[], Cases]:
    """A `setup_cache` of the Function's own: asv keys caches by module and line, so each needs a module's name."""

    def setup_cache() -> Cases:
        from .asv_run import sample

        return sample(name, version(name))

    module = f"{__name__}.{name}"
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
