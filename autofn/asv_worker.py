"""The worker process of an asv run: measures a Function of the installed commit with the working tree's code.

The two meet only at the installed package's `registry` and the Specs that it loads.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .asv import PHASES, WORKLOADS
from .measure.group import Arm, Group, Settings
from .measure.run import Task, execute
from .records import Journal

COMPILED_KINDS = ("compile", "fused")


def work(text: str) -> None:
    """Measures what the journal lacks. The last line printed says why a case that is not there is missing."""
    task = json.loads(text)
    registry = importlib.import_module("autofn.registry")
    function = task["function"]
    if function not in registry.names():
        print(f"this commit has no Function {function}")
        return
    spec = registry.spec(function)
    if spec.version != task["version"]:
        print(f"this commit has inputs of version {spec.version}, the suite is for version {task['version']}")
        return
    journal = _OfRun(Path(task["journal"]), task["conditions"]["run"])
    with _Arms(Path(task["arm"])) as arms:
        tasks = [_task(registry, spec, group, arms, task["lost"]) for group in _groups(spec, task["dtypes"])]
        settings = Settings(PHASES, task["budget_s"], before=arms.at)
        execute(tasks, settings, journal, conditions=task["conditions"])
    print("not among the cases of this profile, device or Function")


class _OfRun(Journal):
    """The journal of one run: earlier runs stay in the file and out of sight."""

    def __init__(self, path: Path, run: str) -> None:
        super().__init__(path)
        self.run = run

    def records(self) -> Any:
        return (record for record in super().records() if record.run == self.run)


class _Arms:
    """Writes down which arm is at work, for whoever watches this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.group = ""

    def __enter__(self) -> _Arms:
        self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT)
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self.file)

    def at(self, arm: str) -> None:
        text = f"{self.group} {arm}".encode()
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, text, 0)


def _groups(spec: Any, dtypes: list[str]) -> list[Group]:
    import torch

    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    return [
        Group(spec.name, workload, dtype, device)
        for device in devices
        for dtype in spec.dtypes
        if dtype in dtypes
        for workload in WORKLOADS
        if workload in spec.workloads
    ]


def _task(registry: Any, spec: Any, group: Group, arms: _Arms, lost: dict[str, str]) -> Task:
    def loader(variant: str) -> Callable[[], Callable[..., Any]]:
        def load() -> Callable[..., Any]:
            arms.group = str(group)
            arms.at(variant)
            if f"{group} {variant}" in lost:
                raise RuntimeError(lost[f"{group} {variant}"])
            apply: Callable[..., Any] = registry.load(spec.name, variant, group.device)
            return apply

        return load

    return Task(
        spec,
        group,
        tuple(Arm(v.name, loader(v.name), v.kind in COMPILED_KINDS) for v in registry.variants(spec.name)),
    )
