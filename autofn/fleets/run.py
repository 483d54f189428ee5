"""The coordinator of a fleet: builds each commit once, hands its cells to an engine, merges what comes back.

All that it knows lies on disk, so it can be killed and started again: a cell's folder holds its attempts and what its
job has measured so far.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..comparing.builds import BuildError, side
from ..measure.run import Progress
from ..records import FAILED, UNAVAILABLE
from . import attempts as tried
from . import failures
from .attempts import Attempt
from .cells import Cell, Suite
from .engine import Ended, Engine
from .job import Order
from .merging import Merged, merge

CELLS = Path(".autofn/fleet/cells")
# How often a cell is tried: a job that dies is started once more.
TRIES = 2
# Between two looks at the jobs, a twentieth of the time since the start, but so many seconds at least: short runs are
# told soon, and a scheduler is not asked more often than need be.
LOOK_SHARE, LOOK_S = 0.05, 0.5
MEASURED, THERE = "measured", "was there"


@dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    status: MEASURED, THERE, or as of a record "failed" or "n/a", with the reason. tries: jobs that it took. merged: the
    values that it brought.
    """

    cell: Cell
    status: str
    reason: str = ""
    tries: int = 0
    merged: Merged = field(default=Merged(0, 0))


@dataclass
class Fleet:
    """Cells on the way. build: the folder with a commit's packages. suite_folder: a copy of what measures."""

    root: Path
    engine: Engine
    suite: Suite
    suite_folder: Path
    cache: Callable[[Cell], str]
    said: Callable[[str], None] = lambda text: None
    outcomes: list[Outcome] = field(default_factory=list)
    running: dict[str, Cell] = field(default_factory=dict)

    def run(self, cells: Sequence[Cell], progress: Progress = lambda done, total, label: None) -> list[Outcome]:
        """Measures all cells. Raises EngineError where the engine refuses jobs; those that run are left to it."""
        waiting = deque(self._adopted(cells))
        begin = time.monotonic()
        try:
            while waiting or self.running:
                if waiting and len(self.running) < self.engine.at_once:
                    self._submit(waiting)
                label = f"{len(self.running)} running, {len(waiting)} waiting"
                progress(len(cells) - len(waiting) - len(self.running), len(cells), label)
                before = len(self.running)
                waiting.extend(self._collect())
                if self.running and len(self.running) == before:
                    share = LOOK_SHARE * (time.monotonic() - begin)
                    time.sleep(min(max(share, LOOK_S), self.engine.look_s))
        except BaseException:
            if self.running:
                self.said(self.engine.leave({job: self._order(cell, "") for job, cell in self.running.items()}))
            raise
        progress(len(cells), len(cells), "")
        return self.outcomes

    def _adopted(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        """Takes up what an earlier coordinator submitted; gives those that nobody works on."""
        for cell in cells:
            before = tried.read(self._folder(cell))
            last = before[-1] if before and not before[-1].reason else None
            if last and last.engine == self.engine.name and self.engine.adopt(last.job, self._order(cell, "")):
                self.running[last.job] = cell
                continue
            if last:
                tried.write(self._folder(cell), before[:-1])
            yield cell

    def _submit(self, waiting: deque[Cell]) -> None:
        """The next cells, of one machine and device, as one array."""
        first = waiting[0]
        room = self.engine.at_once - len(self.running)
        alike = [one for one in waiting if (one.machine, one.device) == (first.machine, first.device)][:room]
        orders = {}
        for cell in alike:
            waiting.remove(cell)
            try:
                orders[cell] = self._order(cell, self._build(cell.commit))
            except BuildError as error:
                self._without(cell, FAILED, str(error))
        if not orders:
            return
        jobs = self.engine.submit(first.machine, list(orders.values()))
        for cell, job in zip(orders, jobs, strict=True):
            tried.write(self._folder(cell), [*tried.read(self._folder(cell)), Attempt(self.engine.name, job)])
            self.running[job] = cell

    def _build(self, commit: str) -> str:
        built = side(commit, self.root, said=lambda text: self.said(text.replace(commit, commit[:12]))).folder
        if built is None:
            raise BuildError(f"{commit[:12]} has no build")
        return str(built.resolve())

    def _collect(self) -> Iterator[Cell]:
        """Ends what has ended. Gives the cells that are to be tried again."""
        orders = {job: self._order(cell, "") for job, cell in self.running.items()}
        for job, ended in self.engine.ended(orders).items():
            cell = self.running.pop(job)
            if not ended.reason:
                self._take(cell)
            elif self._again(cell, ended):
                yield cell

    def _take(self, cell: Cell) -> None:
        folder = self._folder(cell)
        tries, merged = len(tried.read(folder)), merge(folder, self.root, cell.machine.name)
        shutil.rmtree(folder)
        if merged.values:
            failures.forget(self.root, cell, self.suite)
            self.outcomes.append(Outcome(cell, MEASURED, "", tries, merged))
        else:
            reason = f"nothing could be measured on {cell.device}: there is no such device, or none of the Functions"
            self._without(cell, UNAVAILABLE, reason, tries)

    def _again(self, cell: Cell, ended: Ended) -> bool:
        """Notes the attempt as failed. Whether there is another one."""
        *before, last = tried.read(self._folder(cell)) or [Attempt(self.engine.name, "")]
        where = f" ({ended.host})" if ended.host else ""
        tried.write(self._folder(cell), [*before, Attempt(last.engine, last.job, f"{ended.reason}{where}")])
        self.said(f"{cell}: {ended.reason}{where}")
        if len(before) + 1 < TRIES:
            return True
        reasons = dict.fromkeys(attempt.reason for attempt in tried.read(self._folder(cell)))
        self._without(cell, FAILED, f"tried {TRIES} times: {'; then '.join(reasons)}", TRIES)
        return False

    def _without(self, cell: Cell, status: str, reason: str, tries: int = 0) -> None:
        """A row with its reason. What its jobs measured stays, for a fleet that tries it anew."""
        failures.write(self.root, cell, self.suite, status, reason)
        (self._folder(cell) / tried.FILE).unlink(missing_ok=True)
        self.outcomes.append(Outcome(cell, status, reason, tries))

    def _folder(self, cell: Cell) -> Path:
        return self.root / CELLS / cell.folder(self.suite)

    def _order(self, cell: Cell, build: str) -> Order:
        return Order(
            folder=str(self._folder(cell)), repository=str(self.root), build=build, suite=str(self.suite_folder),
            cache=self.cache(cell), commit=cell.commit, machine=cell.machine.name, device=cell.device,
            profile=self.suite.profile, functions=self.suite.functions,
        )  # fmt: skip
