"""Instructions a call on the CPU, counted by one Valgrind process for many cases. Imports no torch.

A count hardly depends on what else the machine does, so it shows changes that no time can; what ran before in the
process moves it by up to 2 %. It says nothing of caches, of memory or of how many instructions a cycle gets through.
Valgrind 3 runs AVX2 and no AVX-512: where the machine has AVX-512, PyTorch's own kernels are counted in their AVX2
form, and a graph that was compiled for AVX-512 not at all.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from ..records import FAILED, OK, UNAVAILABLE, Journal, Key, Record, last_of_each
from ..terms import COMPILED
from .channel import Channel, HangError, Listener, LostError, Message
from .processes import Build, describe
from .rows import Rows
from .run import Progress, Task

METRIC, UNIT = "instructions", "count"
# What a count is of; results of different protocols do not compare.
PROTOCOL = "callgrind-calls/1"
# Importing torch inside Valgrind takes 30 s on an idle machine; a case a second, one that compiles half a minute.
START_S, CASE_S, ASK_S = 600.0, 600.0, 120.0
# A process that crashed inside Valgrind still has its dump to write.
CRASH_S = 30.0
# What Valgrind 3 can run. An empty name is that of no AVX.
RUNS = ("DEFAULT", "NO AVX", "AVX2")
NO_VALGRIND = "needs Valgrind on the PATH (apt install valgrind)"

CANNOT_RUN = "; was the extension built with AUTOFN_ARCH=native, for instructions that Valgrind cannot run?"

ASK = (
    "import json, torch; print(json.dumps({'capability': torch.backends.cpu.get_cpu_capability(), "
    "'avx512': torch.cpu._is_avx512_supported()}))"
)

Asked = tuple[Key, str]


@dataclass(frozen=True)
class Counted:
    """Instructions a call, the median of some counts of `number` calls each, or why there are none."""

    value: float | None = None
    samples: tuple[float, ...] = ()
    number: int | None = None
    status: str = OK
    reason: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bare:
    """The processor outside Valgrind. capability: of PyTorch's kernels. avx512: whether compiled graphs use it."""

    capability: str
    avx512: bool

    def counts(self, compiled: bool) -> bool:
        """Whether the code that is timed runs inside Valgrind."""
        return self.capability in RUNS and not (compiled and self.avx512)


def total(text: str) -> int:
    """The instructions of one dump in Callgrind's format. Raises ValueError where it is cut short or of other events.

    https://valgrind.org/docs/manual/cl-format.html
    """
    events = re.search(r"^events: (.*)$", text, re.MULTILINE)
    totals = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
    if not text.startswith("# callgrind format") or events is None or totals is None:
        raise ValueError("a callgrind file must have the lines 'events:' and 'totals:', and one of them is not there")
    if events[1].split() != ["Ir"]:
        raise ValueError(f"a callgrind file must count Ir alone, got {events[1]}")
    return int(totals[1])


def unavailable(build: Build) -> str | None:
    """Why nothing can be counted here, or None."""
    return None if shutil.which("valgrind", path=build.variables().get("PATH", "")) else NO_VALGRIND


def count(
    build: Build,
    keys: Sequence[Key],
    phases: Sequence[str],
    number: int = 20,
    progress: Progress = lambda done, total, label: None,
) -> dict[Asked, Counted]:
    """Instructions a call of each case in each phase, or the reason why there are none.

    number: calls of one count, fewer where they take long. progress: called with cases done, cases in all, and the one
    that starts. A case that raises costs its own entry; one that crashes or hangs those of its phases to come, and
    Valgrind a new start.
    """
    # Graphs last: what their compiling imports could change the count of what comes after.
    ordered = sorted(keys, key=lambda key: _kind(key) in COMPILED)
    asked = [(key, phase) for key in ordered for phase in phases]
    found: dict[Asked, Counted] = {}
    with Valgrind(build) as valgrind:
        for done, (key, phase) in enumerate(asked):
            progress(done, len(asked), f"{key} {phase}")
            found[key, phase] = valgrind.count(key, phase, number)
    progress(len(asked), len(asked), "")
    return found


def records_of(rows: Rows, variants: Sequence[str], counted: Mapping[Asked, Counted]) -> Iterator[Record]:
    """The records of a group's variants, whatever became of each."""
    for variant in variants:
        for phase in rows.phases:
            found = counted[rows.group.key(variant), phase]
            yield rows.record(variant, phase, METRIC, UNIT, processes=1, protocol=PROTOCOL, **vars(found))


def count_tasks(
    tasks: Sequence[Task],
    phases: Sequence[str],
    journal: Journal,
    *,
    conditions: Mapping[str, Any],
    allocator: str = "settled",
    progress: Progress = lambda done, total, label: None,
) -> list[Record]:
    """Counts what the journal lacks, on one thread, appends it at the end, and returns all of the journal's records."""
    from . import machine

    build = Build(threads=1, allocator=allocator)
    there = {(key_of(record), record.phase) for record in journal.records() if record.metric == METRIC}
    keys = [
        key
        for task in tasks
        for key in (task.group.key(arm.variant) for arm in task.arms)
        if any((key, phase) not in there for phase in phases)
    ]
    counted = count(build, keys, phases, progress=progress)
    for task in tasks:
        own = {**machine.conditions(task.group.device, 1), "allocator": allocator, **conditions}
        rows = Rows(task.group, phases, {**own, "version": task.version})
        variants = [arm.variant for arm in task.arms if task.group.key(arm.variant) in keys]
        journal.append(records_of(rows, variants, counted))
    return last_of_each(journal.records())


def key_of(record: Record) -> Key:
    """The case of a record."""
    return Key(record.function, record.variant, record.workload, record.dtype, record.device)


def _kind(key: Key) -> str:
    """`python_combined` is of the kind `python`."""
    return key.variant.partition("_")[0]


class Valgrind:
    """The process, started at the first case that needs it. Use as a context manager: it ends with it."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self.folder = tempfile.TemporaryDirectory(prefix="autofn-")
        self.path = Path(self.folder.name)
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: Channel | None = None
        self.capability = ""
        self.starts = 0
        # Why it is not started again, at all or for more phases of a case: it would fail alike, a minute later.
        self.broken = ""
        self.lost: dict[Key, str] = {}

    def __enter__(self) -> Valgrind:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        self.folder.cleanup()

    @cached_property
    def bare(self) -> Bare:
        """What the same Python says of the processor outside Valgrind."""
        asked = subprocess.run(
            [self.build.python, "-P", "-c", ASK],
            env=self.build.variables(), check=True, capture_output=True, text=True, timeout=ASK_S,
        )  # fmt: skip
        return Bare(**json.loads(asked.stdout.splitlines()[-1]))

    @cached_property
    def _unavailable(self) -> str | None:
        return unavailable(self.build)

    def count(self, key: Key, phase: str, number: int) -> Counted:
        """Instructions a call of one case in one phase, or the reason why there are none."""
        graph = _kind(key) in COMPILED
        reason = self._why_not(key, graph)
        if reason:
            return Counted(status=UNAVAILABLE, reason=reason)
        if self.broken or key in self.lost:
            return Counted(status=FAILED, reason=self.broken or self.lost[key])
        try:
            channel = self._started()
        except (LostError, HangError) as error:
            self.broken = f"Valgrind did not start: {error}; it said: {self._said()}"
            self._end()
            return Counted(status=FAILED, reason=self.broken)
        message = {"key": vars(key), "phase": phase, "number": number, "compiled": graph}
        try:
            answer = channel.ask(message, CASE_S)
        except HangError as error:
            self._end()
            self.lost[key] = f"hangs inside Valgrind in {phase}: {error}, so it was killed"
        except LostError:
            status = self._end(CRASH_S)
            hint = CANNOT_RUN if status == -signal.SIGILL else ""
            self.lost[key] = f"the process in Valgrind was lost in {phase}: {describe(status)}{hint}"
        else:
            return self._counted(key, answer)
        return Counted(status=FAILED, reason=self.lost[key])

    def _why_not(self, key: Key, graph: bool) -> str | None:
        if key.device != "cpu":
            return f"counts the instructions of the CPU, not of {key.device}"
        if self._unavailable:
            return self._unavailable
        if graph and not self.bare.counts(graph):
            return (
                "Valgrind runs AVX2 and no AVX-512: torch.compile makes other code inside it than the code that is "
                f"timed on this machine ({'AVX512' if self.bare.avx512 else self.bare.capability})"
            )
        return None

    def _counted(self, key: Key, answer: Message) -> Counted:
        if "unavailable" in answer:
            reason = answer["unavailable"].removeprefix(f"{key.function} ({key.variant}): ")
            return Counted(status=UNAVAILABLE, reason=reason)
        if "failed" in answer:
            return Counted(status=FAILED, reason=answer["failed"])
        calls, empty = ([self._total(number) for number in answer[which]] for which in ("calls", "empty"))
        samples = tuple((each - median(empty)) / answer["number"] for each in calls)
        capability = {"counted": self.capability, "timed": self.bare.capability}
        detail = {"cpu_capability": capability, "overhead": median(empty)}
        if _kind(key) == "cpp":
            # setup.py builds for AVX2 on every machine; PyTorch's kernels inside it are as cpu_capability says.
            detail["own_kernels"] = "the code that is timed"
        return Counted(median(samples), samples, answer["number"], detail=detail)

    def _total(self, number: int) -> int:
        dump = self.path / f"out-{self.starts}.{number}"
        found = total(dump.read_text(errors="replace"))
        dump.unlink()
        return found

    def _started(self) -> Channel:
        """The connection to the process. Raises LostError where it ends, HangError where it does not come."""
        if self.channel is None:
            self.starts += 1
            name, path = f"valgrind #{self.starts}", self.path / f"socket-{self.starts}"
            listener = Listener(path)
            try:
                process = self.process = subprocess.Popen(
                    self._command(path, name),
                    env=self._variables(),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    # A session of its own: Ctrl-C reaches the coordinator alone, which then ends this process.
                    start_new_session=True,
                )
                channel, _ = listener.accept(name, START_S, alive=lambda: process.poll() is None)
                self.capability = channel.receive(ASK_S)["capability"]
                self.channel = channel
            finally:
                listener.close()
        return self.channel

    def _command(self, path: Path, name: str) -> list[str]:
        script = Path(__file__).parents[1] / "harness.py"
        out, log = self.path / f"out-{self.starts}", self.path / "log"
        return [
            "valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={out}", f"--log-file={log}",
            self.build.python, "-P", str(script), "measure.counted_worker", "serve", str(path), name,
            self.build.package,
        ]  # fmt: skip

    def _variables(self) -> dict[str, str]:
        """Hashes that are the same in every process, and kernels that Valgrind can run."""
        pinned = {} if self.bare.capability in RUNS else {"ATEN_CPU_CAPABILITY": "avx2"}
        return {**self.build.variables(), "PYTHONHASHSEED": "0", **pinned}

    def _said(self) -> str:
        log = self.path / "log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return lines[-1] if lines else "nothing"

    def _end(self, patience_s: float = 0.0) -> int:
        """Closes the connection, waits `patience_s` for the process to end by itself, and kills it; its exit status."""
        process, self.process = self.process, None
        channel, self.channel = self.channel, None
        if process is None:
            return 0
        if channel is not None:
            channel.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
