"""What a job does on its node: one `asv run` of one commit, in a folder of its own. Imports no torch.

Results and journal lie in that folder until the coordinator merges them, so a job that is started again goes on with
the cases that the journal lacks.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from ..asv_run import BUILD, PROFILES
from ..records import ASV_RESULTS

MARK = "AUTOFN_FLEET_JOB"
"""The variable that every process of a job has inherited; its value is the job's folder."""
LOG = "asv.log"
LOG_LINES = 6


@dataclass(frozen=True)
class Order:
    """What a job is told. folder: its own. repository: with the commit. build: the commit's packages. suite: a copy of
    what measures. cache: where compiled kernels are kept.
    """

    folder: str
    repository: str
    build: str
    suite: str
    cache: str
    commit: str
    machine: str
    device: str
    profile: str
    functions: tuple[str, ...]


class StoppedError(Exception):
    """The scheduler, or a person, asks this job to end."""


def measure(order: Order) -> dict[str, Any]:
    """Runs asv. Returns reason ("" where there are results), host and seconds."""
    begin = time.monotonic()
    mine = (os.getpid(), os.getppid())
    end_processes(order.folder, but=mine)
    _configure(order)
    try:
        with _stopping():
            reason = _run(order)
    except StoppedError as stopped:
        reason = str(stopped)
    finally:
        end_processes(order.folder, but=mine)
    return {"reason": reason, "host": platform.node(), "seconds": time.monotonic() - begin}


def _configure(order: Order) -> None:
    """asv's configuration of the suite, with the job's own folders; and what asv is to know of this machine."""
    from asv import util
    from asv.machine import Machine, MachineCollection

    folder = Path(order.folder)
    folder.mkdir(parents=True, exist_ok=True)
    own = util.load_json(str(Path(order.suite) / "asv.conf.json"), js_comments=True)
    own |= {
        "repo": order.repository,
        "benchmark_dir": str(Path(order.suite) / "benchmarks"),
        "plugins": [".autofn.asv_environment", ".autofn.fleets.asv_plugin"],
        "environment_type": "shared",
        "results_dir": str(ASV_RESULTS),
        "env_dir": "env",
    }
    (folder / "asv.conf.json").write_text(json.dumps(own))
    about = {**Machine.get_defaults(), "machine": order.machine}
    util.write_json(str(folder / "machine.json"), {order.machine: about}, MachineCollection.api_version)
    (folder / "commit").write_text(f"{order.commit}\n")


def _run(order: Order) -> str:
    """Why there are no results, "" where there are: also those of a job before, which died later."""
    folder = Path(order.folder)
    if _has_results(folder):
        return ""
    command = [sys.executable, "-m", "asv", "run", "--machine", order.machine, "--show-stderr", "--no-pull"]
    command += ["--bench", selection(order.profile, order.device, order.functions), "HASHFILE:commit"]
    with (folder / LOG).open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(order), stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        status = process.wait()
    if _has_results(folder):
        return ""
    return f"asv ended with status {status} and without results: {last_lines(folder / LOG)}"


def _has_results(folder: Path) -> bool:
    """Whether asv has saved what it measured, which it does in the end, and a kill has not cut it short."""
    for path in (folder / ASV_RESULTS).glob("*/*.json"):
        if path.name != "machine.json":
            with suppress(ValueError):
                return bool(json.loads(path.read_text()))
    return False


def _environment(order: Order) -> dict[str, str]:
    # The suite's own harness measures, whatever the package is that submitted the job.
    path = os.pathsep.join(filter(None, [order.suite, os.environ.get("PYTHONPATH")]))
    return {
        **os.environ,
        "PYTHONPATH": path,
        "AUTOFN_PROFILE": order.profile,
        "AUTOFN_DEVICE": order.device,
        "TORCHINDUCTOR_CACHE_DIR": order.cache,
        BUILD: order.build,
        MARK: order.folder,
    }


def selection(profile: str, device: str, functions: tuple[str, ...]) -> str:
    """The regular expression of the benchmarks that are asked for: asv starts a process for each that it lets through,
    even where there is nothing to hand over.
    """
    workloads, dtypes = (PROFILES[profile][axis] for axis in ("workloads", "dtypes"))
    names = "|".join(functions) or r"\w+"
    return rf"^\w+\.({names})\.\w+\('\w+', '({'|'.join(workloads)})', '({'|'.join(dtypes)})', '{device}'\)$"


def last_lines(log: Path) -> str:
    """The end of a log in one line, "" where there is none."""
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return " / ".join([line.strip() for line in lines if line.strip()][-LOG_LINES:])


@contextmanager
def _stopping() -> Iterator[None]:
    """Turns the signals that schedulers send into StoppedError."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise StoppedError(f"stopped from outside, by {signal.Signals(number).name}")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_processes(folder: str, but: Sequence[int] = (), within: float = 10.0) -> None:
    """Kills what is left on this machine of a job in that folder; returns once it is gone, or after `within` seconds.

    A process that was killed leaves children behind, and lives on for a moment itself: who starts the job again at once
    would share the folder, and the core that is timed, with it.
    """
    end = time.monotonic() + within
    while left := set(processes_of(folder)).difference(but):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            return
        time.sleep(0.01)


def processes_of(folder: str) -> list[int]:
    """The processes of this user that carry the job's mark."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            # Of another user, or gone since.
            continue
    return found
