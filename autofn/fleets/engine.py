"""The engines that jobs are handed to, both submitit's: this machine, one job at a time, or Slurm.

An engine submits orders and tells which jobs have ended; when to submit what is the coordinator's.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .cells import Machine
from .job import LOG, MARK, Order, end_processes, last_lines, measure

if TYPE_CHECKING:
    from submitit import Job

LOGS = Path(".autofn/fleet/log")
# A job that is none of these has ended: https://slurm.schedmd.com/squeue.html#SECTION_JOB-STATE-CODES
ALIVE = (
    "CONFIGURING", "COMPLETING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD",
    "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED",
)  # fmt: skip
IN_WORDS = {
    "TIMEOUT": "out of time: it ran longer than --minutes",
    "PREEMPTED": "preempted by the scheduler",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "out of memory",
    "CANCELLED": "cancelled",
    "DEADLINE": "past its deadline",
    "BOOT_FAIL": "its node did not boot",
}
# How often a job must be seen gone before it counts as lost: its result may still be on the way over the file system.
LOOKS = 2


class EngineError(RuntimeError):
    """The engine does not take jobs; the message says why."""


@dataclass(frozen=True)
class Ended:
    """How a job ended. reason: "" where it has results. host: where it ran, "" where nobody knows."""

    reason: str
    host: str = ""


class Engine(Protocol):
    """name: as on the command line. at_once: how many cells it takes. look_s: seconds between two looks, at most."""

    name: str
    at_once: int
    look_s: float

    def submit(self, machine: Machine, orders: Sequence[Order]) -> list[str]:
        """Their jobs' ids. Raises EngineError where they are refused."""
        ...

    def adopt(self, job: str, order: Order) -> bool:
        """Whether a job that an earlier coordinator submitted is still this engine's to wait for."""
        ...

    def ended(self, jobs: Mapping[str, Order]) -> dict[str, Ended]:
        """Those of the jobs that have ended."""
        ...

    def leave(self, jobs: Mapping[str, Order]) -> str:
        """What to do as the coordinator is interrupted; a sentence for the user."""
        ...


def require() -> None:
    """Raises LookupError where what a fleet needs is not installed."""
    for name in ("submitit", "asv"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise LookupError(f"fleet: {name} is not installed: pip install 'autofn[fleet]'") from error


@dataclass
class Local:
    """Jobs on this machine, one at a time: two would measure each other."""

    root: Path
    minutes: int
    name: str = "local"
    at_once: int = 1
    look_s: float = 1.0
    _jobs: dict[str, Job[Any]] = field(default_factory=dict)

    def submit(self, machine: Machine, orders: Sequence[Order]) -> list[str]:
        from submitit import LocalExecutor

        submitted = []
        for order in orders:
            # The id is a process's, which comes again; the folder does not.
            token = uuid.uuid4().hex[:12]
            executor = LocalExecutor(self.root / LOGS / token)
            # Only those GPUs that it asks for are visible to a job.
            gpus = int(order.device == "cuda")
            executor.update_parameters(timeout_min=self.minutes, gpus_per_node=gpus, stderr_to_stdout=True)
            with _marked(order.folder):
                job = executor.submit(measure, order)
            name = f"{token}/{job.job_id}"
            self._jobs[name] = job
            submitted.append(name)
        return submitted

    def adopt(self, job: str, order: Order) -> bool:
        from submitit import LocalJob

        end_processes(order.folder)
        token, _, number = job.partition("/")
        found: Job[Any] = LocalJob(self.root / LOGS / token, number)
        self._jobs[job] = found
        # Nobody has waited for one without a result: what it has measured is in its journal.
        return found.paths.result_pickle.exists()

    def ended(self, jobs: Mapping[str, Order]) -> dict[str, Ended]:
        found = {}
        for name, order in jobs.items():
            job = self._jobs[name]
            if job.done():
                end_processes(order.folder)
                found[name] = _result(job) or Ended(_died(job, order))
        return found

    def leave(self, jobs: Mapping[str, Order]) -> str:
        for order in jobs.values():
            end_processes(order.folder)
        return "the job that ran was ended; the same command goes on"


@dataclass
class Slurm:
    """Job arrays, one exclusive node a job. nodes: how many at once, at most."""

    root: Path
    minutes: int
    nodes: int = 32
    name: str = "slurm"
    # Its arrays have 1001 jobs at most, unless somebody has raised MaxArraySize.
    at_once: int = 1000
    look_s: float = 30.0
    _gone: dict[str, int] = field(default_factory=dict)

    def submit(self, machine: Machine, orders: Sequence[Order]) -> list[str]:
        from submitit.core.utils import FailedJobError
        from submitit.slurm.slurm import SlurmExecutor

        try:
            executor = SlurmExecutor(self.root / LOGS / "%j")
        except RuntimeError as error:
            raise EngineError("fleet: Slurm's srun and sbatch are not on the PATH; run this on a login node") from error
        executor.update_parameters(
            job_name="autofn-fleet", time=self.minutes, nodes=1, exclusive=True, stderr_to_stdout=True,
            array_parallelism=self.nodes, use_srun=False,
            # What is tried again is the coordinator's to say.
            additional_parameters={"no-requeue": True, **dict(machine.options)},
        )  # fmt: skip
        try:
            jobs = executor.map_array(measure, orders)
        except FailedJobError as error:
            raise EngineError(f"fleet: Slurm refuses the jobs for {machine.name}: {_last_line(str(error))}") from error
        return [job.job_id for job in jobs]

    def adopt(self, job: str, order: Order) -> bool:
        return True

    def ended(self, jobs: Mapping[str, Order]) -> dict[str, Ended]:
        states = _queue()
        found = {}
        for name, order in jobs.items():
            job = self._job(name)
            result = _result(job)
            if result is None and states is not None and states.get(name, "") not in ALIVE:
                self._gone[name] = self._gone.get(name, 0) + 1
                if self._gone[name] >= LOOKS:
                    result = Ended(_died(job, order, states.get(name) or _accounted(name)))
            if result is not None:
                found[name] = _with_words(result, states.get(name, "") if states else "")
        return found

    def leave(self, jobs: Mapping[str, Order]) -> str:
        return (
            f"{len(jobs)} jobs go on in Slurm, and the same command waits for them; `scancel --name autofn-fleet` "
            "ends them"
        )

    def _job(self, name: str) -> Job[Any]:
        from submitit.slurm.slurm import SlurmJob

        return SlurmJob(self.root / LOGS / "%j", name)


@contextmanager
def _marked(folder: str) -> Iterator[None]:
    """What is started inside carries the job's mark."""
    os.environ[MARK] = folder
    try:
        yield
    finally:
        del os.environ[MARK]


def _result(job: Job[Any]) -> Ended | None:
    """What the job itself says, None where it has said nothing."""
    if not job.paths.result_pickle.exists():
        return None
    error = job.exception()
    if error is not None:
        return Ended(_last_line(str(error)))
    said = job.result()
    return Ended(said["reason"], said["host"])


def _died(job: Job[Any], order: Order, state: str = "") -> str:
    """A reason for a job that has said nothing: the scheduler's state in words, and the end of its log."""
    words = next((words for name, words in IN_WORDS.items() if state.startswith(name)), "")
    log = last_lines(Path(order.folder) / LOG) or last_lines(job.paths.stdout)
    return f"the job ended without a result: {words or 'its process is gone'}" + (f"; its log: {log}" if log else "")


def _with_words(ended: Ended, state: str) -> Ended:
    """Where the scheduler says why it stopped a job, that is the reason."""
    words = IN_WORDS.get(state)
    return Ended(words, ended.host) if ended.reason and words else ended


def _queue() -> dict[str, str] | None:
    """The state of this user's jobs by id, those that ended lately among them; None where Slurm does not answer."""
    command = ["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i %T"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return {name: state for name, _, state in (line.strip().partition(" ") for line in done.stdout.splitlines())}
    return None


def _accounted(job: str) -> str:
    """The state that Slurm's accounting keeps, "" where there is none."""
    command = ["sacct", "--noheader", "--allocations", "--parsable2", "--format=State", "--jobs", job]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    return ""


def _last_line(text: str) -> str:
    lines: Iterable[str] = (line.strip() for line in text.splitlines())
    return ([line for line in lines if line.strip("-")] or [""])[-1]
