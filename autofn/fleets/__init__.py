"""A matrix of commits, machines and devices, measured by asv on the nodes of a cluster, or here one after the other."""

from __future__ import annotations

import fcntl
import json
import math
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..records import ASV_RESULTS
from .cells import Cell, Machine, Suite

if TYPE_CHECKING:
    from ..measure.run import Progress
    from .run import Outcome

FLEET = Path(".autofn/fleet")
ENGINES = ("local", "slurm")
# What a job needs of the working tree: all that measures, and asv's configuration.
MEASURES = ("autofn", "benchmarks", "asv.conf.json")


def fleet(
    revisions: Sequence[str] = ("HEAD",),
    *,
    root: Path = Path(),
    machines: Sequence[str] = (),
    devices: Sequence[str] = ("cpu",),
    functions: Sequence[str] = (),
    profile: str = "standard",
    engine: str = "local",
    minutes: int = 240,
    nodes: int = 32,
    again: bool = False,
    progress: Progress = lambda done, total, label: None,
    said: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """Measures each commit on each machine and device; results go to asv's files below `root`.

    revisions: commits and ranges (A..B). machines: NAME, or NAME:OPTION=VALUE,... with options of sbatch; by default
    this one. functions: all by default. engine: "local" or "slurm". minutes: what a job may take. nodes: of Slurm, how
    many at once. again: measure what has been measured before a second time; both are kept. said: told of what happens
    on the way. An interrupted fleet goes on with the same call.

    Raises LookupError for what does not exist, ValueError for what cannot be meant, `engine.EngineError` where jobs are
    refused.
    """
    from ..asv_axes import DEVICES, names
    from ..asv_run import PROFILES, estimate_s
    from ..repository import top
    from ..terms import unknown
    from .cells import commits, machine, matrix
    from .engine import Local, Slurm, require
    from .run import THERE, Fleet, Outcome

    for what, given, known in (
        ("engine", [engine], ENGINES), ("profile", [profile], PROFILES), ("device", devices, DEVICES),
        ("Function", functions, names()),
    ):  # fmt: skip
        for name in given:
            if name not in known:
                raise unknown(f"there is no {what}", name, list(known))
    if minutes < 1 or nodes < 1:
        raise ValueError(f"fleet: minutes and nodes must be at least 1, got {minutes} and {nodes}")
    require()
    chosen = [machine(text) for text in machines] or [Machine(this_machine())]
    if engine == "local" and (len(chosen) > 1 or chosen[0].options):
        raise ValueError("fleet: here there is one machine, which takes no options; for others there is --engine slurm")
    root = top(root)
    suite = Suite(profile, tuple(dict.fromkeys(functions)))
    cells = matrix(commits(root, revisions), chosen, list(dict.fromkeys(devices)))
    with _only_one(root):
        there = [] if again else [cell for cell in cells if is_there(root, cell, suite)]
        working = Fleet(
            root, Slurm(root, minutes, nodes) if engine == "slurm" else Local(root, minutes), suite,
            copy_of_what_measures(root), lambda cell: _cache(root, cell, engine), said,
        )  # fmt: skip
        working.outcomes += [Outcome(cell, THERE) for cell in there]
        missing = [cell for cell in cells if cell not in there]
        minutes_each = math.ceil(estimate_s(profile, suite.functions or names()) / 60)
        said(f"{len(missing)} jobs of about {minutes_each} min each, {len(there)} were there")
        working.run(missing, progress)
    return working.outcomes


def this_machine() -> str:
    """The name that asv knows this machine by."""
    from asv.machine import Machine as AsvMachine
    from asv.machine import MachineCollection
    from asv.util import UserError

    name: str = AsvMachine.get_unique_machine_name()
    with suppress(UserError):
        name = MachineCollection.load(name)["machine"]
    return name


def is_there(root: Path, cell: Cell, suite: Suite) -> bool:
    """Whether asv's file of the commit and machine has each of the Functions, and a value on the device."""
    from ..asv_axes import names

    for path in (root / ASV_RESULTS / cell.machine.name).glob(f"{cell.commit[:8]}-*.json"):
        try:
            results = json.loads(path.read_text())["results"]
        except (OSError, ValueError, LookupError, TypeError):
            continue
        known = {name.split(".")[1] for name in results if name.count(".") == 2}
        if known.issuperset(suite.functions or names()):
            return any(_has_value(packed, cell.device) for packed in results.values())
    return False


def _has_value(packed: list[object], device: str) -> bool:
    """Whether a benchmark has a value on the device, its last axis."""
    values, params = packed[:2]
    if not isinstance(values, list) or not isinstance(params, list):
        return False
    devices = params[-1]
    return any(
        isinstance(value, (int, float)) and value == value and devices[number % len(devices)] == f"'{device}'"
        for number, value in enumerate(values)
    )


def copy_of_what_measures(root: Path) -> Path:
    """A folder with what measures, as the working tree has it now: jobs that start later find it unchanged."""
    from ..comparing.builds import tree_digest, tree_files

    folder = root / FLEET / "suites" / tree_digest(root)
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="suite-", dir=folder.parent))
    for file in tree_files(root):
        if file.parts[0] in MEASURES:
            (scratch / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / file, scratch / file)
    os.replace(scratch, folder)
    return folder


def _cache(root: Path, cell: Cell, engine: str) -> str:
    """Where compiled kernels are kept: a kind of machine for itself, for they are compiled for its processor."""
    own = root / FLEET / "inductor" / cell.machine.name if engine == "slurm" else root / "build" / "inductor"
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(own))


@contextmanager
def _only_one(root: Path) -> Iterator[None]:
    """Two coordinators would submit everything twice. Raises ValueError where another one is at work."""
    path = root / FLEET / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise ValueError(f"fleet: another autofn fleet is at work here, {file.read().strip()}") from error
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}\n")
        file.flush()
        yield
