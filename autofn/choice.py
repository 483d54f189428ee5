"""Which variant `variant="auto"` means: what `autofn choose` wrote into the Function's folder, else a fixed order.

Variants that torch.compile makes are never meant: their first call, and that of every new shape, takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import registry

FILE = "choice.json"
# The first that can run, where nothing was measured, or where what was chosen cannot run.
ORDER = {"cpu": ("cpp", "native", "python", "eager"), "cuda": ("cpp", "triton", "native", "python", "eager")}
ELSEWHERE = ("native", "python", "eager")

Step = tuple[int, str]
"""(elements, variant): from so many elements on that variant; the first step of several is from 0."""


@dataclass(frozen=True)
class Choice:
    """What was measured. elements_of: the argument whose elements are counted. steps: by device and dtype."""

    elements_of: str = ""
    steps: Mapping[tuple[str, str], tuple[Step, ...]] = field(default_factory=dict)


def path(function: str) -> Path | None:
    """The file of a Function, whether it exists or not; None for one that has no folder."""
    folder = registry.folder(function)
    return folder / FILE if folder else None


def read(function: str) -> Choice:
    """The measured choice of a Function; an empty one where there is no file."""
    file = path(function)
    if file is None or not file.exists():
        return Choice()
    found = json.loads(file.read_text())
    steps = {
        (device, dtype): tuple((least, variant) for least, variant in chosen)
        for device, of_device in found["devices"].items()
        for dtype, chosen in of_device["dtypes"].items()
    }
    return Choice(found["elements_of"], steps)


def runnable(function: str, device: str) -> list[str]:
    """The variants that can run here on a device."""
    names = [found.name for found in registry.variants(function)]
    return [name for name in names if registry.unavailable(function, name, device) is None]


def default(function: str, device: str) -> tuple[Step, ...]:
    """The first variant of the order that can run here. Raises NotImplementedError where none can."""
    order = ORDER.get(device, ELSEWHERE)
    there = [found.name for found in registry.variants(function) if found.name in order]
    for name in sorted(there, key=order.index):
        if registry.unavailable(function, name, device) is None:
            return ((0, name),)
    raise NotImplementedError(
        f"{function}: no variant runs on {device}; of {', '.join(order)} it has {', '.join(there)}"
    )


def steps(function: str, device: str, dtype: str) -> tuple[Step, ...]:
    """What "auto" means for a device and dtype, by size; a variant that cannot run here is replaced by the default."""
    measured = read(function).steps.get((device, dtype), ())
    return tuple(
        (least, name)
        if registry.unavailable(function, name, device) is None
        else (least, default(function, device)[0][1])
        for least, name in measured
    ) or default(function, device)


def told(steps: tuple[Step, ...]) -> str:
    """Such as "native, from 47,383 elements on cpp"."""
    return ", ".join(f"from {least:,} elements on {variant}" if least else variant for least, variant in steps) or "n/a"
