"""A Function that nobody declared, as one that has a Spec: `autofn bench my_ops.py:Swish --inputs ... --reference ...`.

What was given is written into a spec file, which every process of a run can import.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from . import origins, registry, sources
from .checks.subject import callable_of, maker
from .records import write_atomically
from .spec import Spec, Tolerance
from .terms import DERIVED, taken

FOLDER = Path(".autofn/given")
WORKLOAD = "given"
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
UNDECLARED = Tolerance(0, 0, "nobody has declared how exact it is")
FILE = '''"""Written by autofn for what a command line gave. A Spec of your own says more: see autofn.Spec."""

from autofn import given

SPEC = given.spec_of_sources({name!r}, {function!r}, {inputs!r}, {reference!r})
'''


@dataclass(frozen=True)
class Given(Spec):
    """A Spec with the one workload that its `make_inputs` is."""

    required_workloads: ClassVar[tuple[str, ...]] = (WORKLOAD,)


def functions(names: Sequence[str] | None, inputs: str | None, reference: str | None) -> list[str] | None:
    """The names that a command was given, those of somebody's own code (pkg.module:NAME) as names of the registry.

    Raises ValueError where what goes with such a name is missing, or is given without one.
    """
    own = [name for name in names or () if sources.is_source(name)]
    if not own:
        if inputs or reference:
            raise ValueError(
                "--inputs and --reference go with one of yours (pkg.module:NAME); those of the registry have a Spec"
            )
        return list(names) if names else None
    if len(own) != len(names or ()):
        raise ValueError(f"{own[0]} is yours: give it in a command of its own")
    if not inputs:
        raise ValueError(f"{own[0]}: --inputs pkg.module:make_inputs must say what makes its arguments")
    if not reference:
        raise ValueError(f"{own[0]}: --reference pkg.module:NAME must say what it is measured against")
    written = {_name(each): _write(each, inputs, reference) for each in own}
    origins.ask([*origins.asked(), *map(str, written.values())])
    for name in written:
        registry.spec(name)
    return list(written)


def _write(function: str, inputs: str, reference: str) -> Path:
    said = {"name": _name(function)} | {
        what: _absolute(text) for what, text in (("function", function), ("inputs", inputs), ("reference", reference))
    }
    digest = hashlib.sha256(repr(said).encode()).hexdigest()[:8]
    path = FOLDER.resolve() / f"{said['name']}_{digest}.py"
    write_atomically(path, FILE.format(**said))
    return path


def _absolute(source: str) -> str:
    place, _, name = source.rpartition(":")
    return f"{Path(place).resolve()}:{name}" if place.endswith(".py") else source


def _name(source: str) -> str:
    """The name of what `my_ops.py:FastSwish` names."""
    return name_of(source.rpartition(":")[2])


def name_of(qualified: str) -> str:
    """`FastSwish` -> "fast_swish", a name for a Function; with a suffix where a built-in one has it, or none may."""
    end = qualified.rpartition(".")[2]
    name = re.sub(r"\W", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", end)).lower().strip("_")
    name = name if name[:1].isalpha() else f"function_{name}"
    return f"{name}_given" if name in taken() or registry.is_built_in(name) else name


def spec_of_sources(name: str, function: str, inputs: str, reference: str) -> Given:
    """As `spec_of`, of what `sources.named` finds. Raises as that does."""
    return spec_of(name, sources.named(function), sources.named(inputs), sources.named(reference))


def spec_of(name: str, function: Any, make_inputs: Callable[..., Any], reference: Any) -> Given:
    """A Spec of one workload: the reference as eager, the Function as its variant python.

    make_inputs: as `autofn.check` takes it; all variants get the same values. Raises ValueError for what cannot be
    called.
    """

    def made(*, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return maker(make_inputs, device)(dtype, seed)

    return Given(
        name=name,
        reference=callable_of(reference),
        make_inputs=made,
        workloads={WORKLOAD: {}},
        tolerances=dict.fromkeys(DTYPES, UNDECLARED),
        version="1",
        variants={"python": callable_of(function)},
    )


@dataclass(frozen=True)
class One:
    """One Function of somebody's own, known as the registry knows its own."""

    only: Given

    def names(self) -> tuple[str, ...]:
        return (self.only.name,)

    def spec(self, name: str) -> Given:
        return self.only

    def variants(self, name: str) -> tuple[registry.Variant, ...]:
        return tuple(registry.Variant(self.only.name, kind, kind) for kind in (*DERIVED, "python"))

    def load(self, function: str, name: str, device: str = "cpu") -> Callable[..., Any]:
        """The variant as a callable, on any device."""
        if name == "compile":
            from .compiled import graph

            return graph(self.only.reference)
        found: Callable[..., Any] = self.only.reference if name == "eager" else self.only.variants[name]
        return found
