"""The loop of somebody who edits one Function: build what changed, check it, time it against the last commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..measure.lockstep import Effort
from ..measure.processes import ArmError, Processes, Seat
from ..records import Record, from_line
from ..terms import COMPILED, kind_of
from .builds import LOG_LINES, WORKING_TREE, BuildError, Side, environment
from .changes import Change
from .plan import edited, pairs
from .run import Comparison, one_look

# One workload, two phases: an answer while the thought is still there.
PHASES = ("forward", "backward")
EFFORT = Effort(budget_s=4.0, rounds=6, servers=4)
# The quick check compiles nothing. Of what compiles this is checked, as it takes seconds.
OF_COMPILED = ("--level", "full", "--select", "value", "--select", "gradient", "--dtype", "float32")
WATCHED = ("*.py", "*.cpp", "*.h", "*.cu", "*.cuh")


@dataclass(frozen=True)
class Turn:
    """What one turn gave.

    checked: the records of the check. changes: of the times and bytes. untouched: the variants whose code is that of
    the base, and which were neither checked nor timed. seconds: by step, build, check, time.
    """

    checked: list[Record]
    changes: list[Change]
    untouched: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass
class Loop:
    """Turns on one Function of the checkout at `root`; the base's processes live on from turn to turn."""

    function: str
    base: Side
    root: Path
    workload: str
    processes: Processes
    described: Callable[[Side], Any]

    def turn(self, progress: Callable[[str], None] = lambda step: None) -> Turn:
        """Builds, checks and times what differs from the base, or all. Raises BuildError where it does not compile."""
        chosen, untouched = self._variants()
        seconds: dict[str, float] = {}
        # Interpreters start beside what is not timed.
        beside = ThreadPoolExecutor(1)
        try:
            beside.submit(self._start, self.base)
            with _timed(seconds, "build"):
                progress("building")
                rebuild(self.root)
            self.processes.forget(self._here().build)
            beside.submit(self._start, self._here())
            with _timed(seconds, "check"):
                progress("checking")
                checked = self._check(chosen)
            with _timed(seconds, "time"):
                progress("timing")
                changes = self._compare(chosen)
        finally:
            beside.shutdown(wait=False, cancel_futures=True)
        return Turn(checked, changes, untouched, seconds)

    def _here(self) -> Side:
        """The working tree as it is now, imported from where it lies."""
        build = replace(self.base.build, environment=environment(self.root, self.root))
        return Side(WORKING_TREE, f"{self.base.commit}+dirty", build, self.root)

    def _start(self, side: Side) -> None:
        """What cannot be started is told when it is asked for."""
        for number in range(EFFORT.servers):
            with suppress(ArmError):
                self.processes.server(Seat(side.build, number))

    def _variants(self) -> tuple[list[str] | None, list[str]]:
        """The variants whose code differs from the base's, and the others; (None, []) where all differ or none does."""
        if self.base.folder is None:
            return None, []
        written = sorted({*_written(self.base.folder, self.function), *_written(self.root, self.function)})
        differing = edited(self.base.folder, self.root, self.function, written)
        if differing in ([], written):
            return None, []
        return differing, [name for name in written if name not in differing]

    def _check(self, variants: Sequence[str] | None) -> list[Record]:
        """In a process of its own: this one has imported the code as it was. None means all variants."""
        there = [name for name in _written(self.root, self.function) if variants is None or name in variants]
        if variants is None:
            return self._run_check()
        compiling = [name for name in there if kind_of(name) in COMPILED]
        others = [name for name in there if name not in compiling]
        return [
            *(self._run_check(*_chosen(others)) if others else []),
            *(self._run_check(*_chosen(compiling), *OF_COMPILED) if compiling else []),
        ]

    def _run_check(self, *options: str) -> list[Record]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "check.json"
            command = [sys.executable, "-m", "autofn", "check", self.function, *options, "--json", str(file)]
            done = subprocess.run(
                command, cwd=folder, env=self._here().build.variables(), capture_output=True, text=True
            )
            if not file.exists():
                raise BuildError(f"the check could not be run:\n{_end(done.stderr)}")
            return [from_line(json.dumps(found)) for found in json.loads(file.read_text())]

    def _compare(self, variants: Sequence[str] | None) -> list[Change]:
        here = self._here()
        before, now = self.described(self.base), self.described(here)
        if not before[self.function]:
            return []
        chosen = pairs(before, now, [self.function], variants=variants, workloads=[self.workload])
        comparison = Comparison(self.base, here, PHASES, EFFORT.budget_s)
        return [change for pair in chosen for change in one_look(self.processes, comparison, pair, EFFORT)]


def _written(folder: Path, function: str) -> list[str]:
    """The variants that a Function of the package has a file of."""
    stems = [file.stem for file in (folder / "autofn" / "functions" / function).glob("*.py")]
    return sorted(stem for stem in stems if kind_of(stem))


def _chosen(variants: Sequence[str]) -> list[str]:
    return [word for variant in variants for word in ("--variant", variant)]


def rebuild(root: Path) -> None:
    """Compiles the kernels that changed since the extension was made. Raises BuildError where one does not compile."""
    if not (root / "setup.py").exists():
        raise BuildError(f"{root} has no setup.py: run this in a checkout of the package")
    built = max((file.stat().st_mtime for file in (root / "autofn").glob("_C*.so")), default=0.0)
    sources = [root / "setup.py", *(file for kind in ("cpp", "h", "cu", "cuh") for file in _sources(root, f"*.{kind}"))]
    if all(file.stat().st_mtime <= built for file in sources):
        return
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=root, env={**os.environ, "AUTOFN_STRICT": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(_end(done.stdout + done.stderr))
    # An object that was as it should be leaves the extension untouched.
    for file in (root / "autofn").glob("_C*.so"):
        os.utime(file)


def _sources(root: Path, pattern: str) -> Iterator[Path]:
    yield from (root / "autofn" / "csrc").rglob(pattern)
    yield from (root / "autofn" / "functions").rglob(pattern)


def _end(text: str) -> str:
    """The first errors of a compiler if there are any, else the last lines."""
    lines = text.strip().splitlines()
    errors = [line for line in lines if "error" in line.lower()]
    return "\n".join((errors or lines[-LOG_LINES:])[:LOG_LINES])


def changed_since(root: Path, function: str, when: float) -> bool:
    """Whether a source of the Function, or what all of them run through, was saved after that time."""
    folders = [root / "autofn" / "functions" / function, root / "autofn" / "csrc"]
    files = [file for folder in folders for pattern in WATCHED for file in folder.rglob(pattern)]
    return any(file.stat().st_mtime > when for file in [*files, *(root / "autofn").glob("*.py")])


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begin = time.monotonic()
    yield
    seconds[step] = time.monotonic() - begin
