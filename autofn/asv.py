"""Suites for airspeed velocity: a class a Function, parametrised by variant, workload, dtype and device.

asv takes the suites from the working tree for every commit. So which Functions exist is read from the folders beside
this file (from the spec files of somebody's own repository), never from the commit under test; what that one lacks is
skipped with its reason. The suites import no torch: one `setup_cache` a Function measures all of its cases in a worker
process, journals them as they end, and asv's benchmarks only hand over the samples.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Declared:
    """What the source of a Spec says. written: the variants that have a file or are named."""

    name: str
    version: str
    written: tuple[str, ...] = ()

    @property
    def axis(self) -> list[str]:
        """The kinds, then the further variants, such as python_combined."""
        further = tuple(f"{kind}_" for kind in VARIANTS)
        return [*VARIANTS, *sorted(variant for variant in self.written if variant.startswith(further))]


def names() -> list[str]:
    """The Functions of the working tree: the folders that hold an `__init__.py`."""
    return [found.name for found in declared()]


def declared(root: Path | None = None) -> list[Declared]:
    """The Functions of the package, or those that the pyproject.toml of somebody's repository names, by their name.

    Read from the sources: importing them would need torch. Raises ValueError where a name or version is no literal.
    """
    files = spec_files(root) if root else FUNCTIONS.glob("*/__init__.py")
    return sorted((found for file in files for found in _declared_in(file)), key=lambda found: found.name)


def spec_files(root: Path) -> list[Path]:
    """The files that hold the Specs of a repository. Raises LookupError for what it names and does not have."""
    from . import origins

    found: list[Path] = []
    for text in origins.of_project(root / "pyproject.toml"):
        path = Path(text)
        if not text.endswith(".py") and not path.is_dir():
            stems = [folder / text.replace(".", os.sep) for folder in (root, root / "src")]
            path = next((each for stem in stems for each in (stem, stem.with_suffix(".py")) if each.exists()), path)
        inside = path / "__init__.py"
        files = [path] if path.is_file() else sorted([*path.glob("*/__init__.py"), *path.glob("*.py")])
        if not files:
            raise LookupError(f"{root / 'pyproject.toml'} names {text!r} for its specs, and there is no {path}")
        found += [file for file in files if file != inside or "Spec(" in file.read_text()]
    return found


def _declared_in(file: Path) -> Iterator[Declared]:
    folder = file.parent if file.name == "__init__.py" else None
    stems = [path.stem for path in sorted(folder.glob("*.py")) if path != file] if folder else []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Spec":
            said: dict[str | None, ast.expr] = dict(zip(POSITIONS, node.args, strict=False))
            said |= {each.arg: each.value for each in node.keywords}
            variants = said.get("variants")
            keys = variants.keys if isinstance(variants, ast.Dict) else []
            written = [*stems, *(str(key.value) for key in keys if isinstance(key, ast.Constant))]
            yield Declared(_literal(file, said, "name"), _literal(file, said, "version"), tuple(written))


# Where the arguments of a Spec stand that are given without their names.
POSITIONS = ("name", "reference", "make_inputs", "workloads", "tolerances", "version")


def _literal(file: Path, said: Mapping[str | None, ast.expr], what: str) -> str:
    found = said.get(what)
    if not isinstance(found, ast.Constant):
        who = file.parent.name if file.name == "__init__.py" else file.name
        raise ValueError(f"{who}: Spec({what}=...) must be a literal string, found none; asv reads it from the source")
    return str(found.value)


def _named(name: str, root: Path | None) -> Declared:
    """What the source says of one of them, that of the package without looking at the others."""
    found = declared(root) if root else _declared_in(FUNCTIONS / name / "__init__.py")
    return next(each for each in found if each.name == name)


def version(name: str, root: Path | None = None) -> str:
    """`Spec.version` of the working tree's Function."""
    return _named(name, root).version


def variants(name: str, root: Path | None = None) -> list[str]:
    """The variant axis: the kinds, then the further variants, such as python_combined."""
    return _named(name, root).axis


def written(name: str, root: Path | None = None) -> list[str]:
    """Of the variant axis, what the Function has written, and what every Function has."""
    found = _named(name, root)
    return [variant for variant in found.axis if variant in (*found.written, *DERIVED)]


def selected(patterns: Sequence[str], root: Path | None = None) -> list[str]:
    """The Functions of which asv runs something for `--bench` with these regular expressions; all without any."""
    return [
        found.name
        for found in declared(root)
        if not patterns or any(re.search(pattern, text) for text in _texts(found) for pattern in patterns)
    ]


def _texts(found: Declared) -> Iterator[str]:
    """What asv matches against: each benchmark with its parameters."""
    methods = [
        *(f"timing.{found.name}.{phase}_time" for phase in PHASES),
        *(f"memory.{found.name}.{metric}" for metric in MEMORY),
    ]
    for method, *case in itertools.product(methods, found.axis, WORKLOADS, DTYPES, DEVICES):
        yield f"{method}({', '.join(map(repr, case))})"


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
