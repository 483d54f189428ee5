"""From names that a person gave to the tasks of a run; an unknown name gets the near ones suggested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .. import registry
from ..terms import COMPILED, PHASES, unknown
from .protocols import CACHE, WALL
from .rows import Arm, Group
from .run import Task

if TYPE_CHECKING:
    from ..spec import Spec


class Known(Protocol):
    """Some Functions by name: the registry, or one of somebody's own."""

    def names(self) -> tuple[str, ...]: ...

    def spec(self, name: str) -> Spec: ...

    def variants(self, name: str) -> tuple[registry.Variant, ...]: ...

    def load(self, function: str, name: str, device: str = "cpu") -> Callable[..., Any]: ...


def tasks(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = ("float32",),
    devices: Sequence[str] = ("cpu",),
    known: Known = registry,
) -> list[Task]:
    """One task a group. None means all that there are. known: what knows the Functions, by default the registry.

    A name must exist in at least one of the chosen Functions; those that lack it leave it out. The baseline `eager` is
    always among the arms. Raises LookupError for an unknown Function, variant, workload or dtype.
    """
    chosen = list(functions) if functions else list(known.names())
    specs = {name: known.spec(name) for name in chosen}
    known_variants = {found.name for name in chosen for found in known.variants(name)}
    _must_exist("variant", variants, known_variants)
    _must_exist("workload", workloads, {workload for spec in specs.values() for workload in spec.workloads})
    _must_exist("dtype", dtypes, {dtype for spec in specs.values() for dtype in spec.dtypes})
    _must_exist("device", devices, {"cpu", "cuda"})
    return [
        Task(Group(name, workload, dtype, device), _arms(known.variants(name), variants), spec.version)
        for name, spec in specs.items()
        for device in devices
        for dtype in spec.dtypes
        if not dtypes or dtype in dtypes
        for workload in spec.workloads
        if not workloads or workload in workloads
    ]


def phases(names: Sequence[str] | None) -> tuple[str, ...]:
    """The phases by name; by default forward, backward and forward_backward. Raises LookupError for an unknown one."""
    _must_exist("phase", names, PHASES)
    return tuple(names) if names else ("forward", "backward", "forward_backward")


def ways(names: Sequence[str] | None, device: str) -> tuple[str, ...]:
    """The ways by name; by default all that a device has: on the CPU the wall alone. Raises LookupError."""
    _must_exist("way", names, tuple(CACHE))
    return tuple(names) if names else tuple(CACHE) if device == "cuda" else (WALL,)


def _arms(there: Sequence[registry.Variant], variants: Sequence[str] | None) -> tuple[Arm, ...]:
    return tuple(
        Arm(found.name, found.kind in COMPILED)
        for found in there
        if not variants or found.name in variants or found.name == "eager"
    )


def _must_exist(what: str, given: Sequence[str] | None, known: set[str] | tuple[str, ...]) -> None:
    for name in given or ():
        if name not in known:
            raise unknown(f"there is no {what}", name, sorted(known))
