"""The coordinator's side of worker processes: starting them, asking them, and saying why one has gone. No torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from .channel import Channel, HangError, Listener, LostError, Message
from .machine import SETTLED_ALLOCATOR

# How long a process may take to start, an arm to load and compile, and a warm-up or a sample to come back.
START_S, FORK_S, COMPILE_S, ANSWER_S = 120.0, 30.0, 600.0, 120.0


class ArmError(RuntimeError):
    """An arm has no result; the message says why."""


class UnavailableError(ArmError):
    """An arm cannot run here."""


@dataclass(frozen=True)
class Build:
    """A Python with its packages, and what its processes run under.

    allocator: "settled" keeps freed pages, "stock" is malloc as it comes. package: whose `registry` module is asked for
    Functions and variants. environment: further variables.
    """

    python: str = sys.executable
    threads: int = 1
    allocator: str = "settled"
    package: str = "autofn"
    environment: tuple[tuple[str, str], ...] = ()

    def variables(self) -> dict[str, str]:
        """The whole environment of a server."""
        tunables = {"GLIBC_TUNABLES": SETTLED_ALLOCATOR} if self.allocator == "settled" else {}
        return {
            **os.environ,
            "OMP_NUM_THREADS": str(self.threads),
            # A pool of compiling processes would outlive the fork that started it.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            **tunables,
            **dict(self.environment),
        }


@dataclass
class Worker:
    """A process: its connection, its id, and the connection of the one that forked it."""

    channel: Channel
    pid: int
    parent: Channel
    ended: int | None = None
    _waiting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def ask(self, what: str, timeout_s: float, **arguments: Any) -> Message:
        """The answer to a message. Raises ArmError where the arm failed, crashed or hangs, UnavailableError for n/a."""
        try:
            answer = self.channel.ask({"do": what, "with": arguments}, timeout_s)
        except HangError as error:
            os.kill(self.pid, signal.SIGKILL)
            raise ArmError(f"hangs: {error}, so it was killed") from error
        except LostError as error:
            with _as_arm_error():
                status = self.status()
            raise ArmError(f"the process was lost: {describe(status)}") from error
        if "failed" in answer:
            raise ArmError(answer["failed"])
        if "unavailable" in answer:
            raise UnavailableError(answer["unavailable"])
        return answer

    def status(self) -> int:
        """The exit status, negative for a signal; waits for the end. A process can be waited for only once."""
        with self._waiting:
            if self.ended is None:
                self.ended = self.parent.ask({"do": "wait", "pid": self.pid}, ANSWER_S)["status"]
            status: int = self.ended
            return status

    def end(self) -> None:
        """Closes the connection, ends the process, which may be compiling, and waits until it has ended."""
        self.channel.close()
        if self.ended is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with suppress(LostError, HangError):
            self.status()


@contextmanager
def _as_arm_error() -> Iterator[None]:
    """A process that is gone or silent costs the arm that needed it."""
    try:
        yield
    except (HangError, LostError) as error:
        raise ArmError(f"the process was lost: {error}") from error


def describe(status: int) -> str:
    """An exit status in words, such as "killed by SIGSEGV"."""
    if status >= 0:
        return f"exit status {status}"
    known = -status in set(signal.Signals)
    name = signal.Signals(-status).name if known else f"signal {-status}"
    return f"killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


@dataclass(frozen=True)
class Seat:
    """Which server is asked for: several of one build are so many interpreters.

    number: from 0. device: whose arms it forks, for a compiler that was warmed for the CPU may have touched CUDA, which
    its forks could then not use.
    """

    build: Build
    number: int = 0
    device: str = "cpu"


@dataclass
class Server:
    """A running server. ready: whether the compiler has been imported."""

    process: subprocess.Popen[bytes]
    channel: Channel
    ready: bool = False

    def end(self) -> None:
        self.channel.close()
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Processes:
    """All processes of a coordinator, one server a seat. Use as a context manager: they end with it.

    Its methods may be called from several threads.
    """

    servers: dict[Seat, Server] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="autofn-")
        self._path = Path(self._folder.name) / "arms"
        self._listener = Listener(self._path)
        self._count = count()
        self._guard = threading.Lock()
        self._starting: dict[Seat, threading.Lock] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A list: an interrupted thread may still be starting one.
        for server in list(self.servers.values()):
            server.end()
        self.servers.clear()
        self._listener.close()
        self._folder.cleanup()

    def server(self, seat: Seat, *, compiler: bool = False, warm: bool = True) -> Channel:
        """The server of a seat, started at first use; with the compiler imported where forks will need it.

        warm: whether it compiles something at once, which it never does for forks on CUDA. Raises ArmError where it
        cannot be started.
        """
        with self._guard:
            starting = self._starting.setdefault(seat, threading.Lock())
        with starting:
            if seat in self.servers and self.servers[seat].process.poll() is not None:
                self.servers.pop(seat).end()
            if seat not in self.servers:
                self.servers[seat] = self._start(seat)
            server = self.servers[seat]
            if compiler and not server.ready:
                with _as_arm_error():
                    server.channel.ask({"do": "compiler", "warm": warm and seat.device == "cpu"}, START_S)
                server.ready = True
        return server.channel

    def _start(self, seat: Seat) -> Server:
        build, name = seat.build, self._unique("server")
        script = Path(__file__).parents[1] / "harness.py"
        # -P: the script's folder must not come before the build's packages. A session of its own: Ctrl-C reaches
        # the coordinator alone, which then ends all of them.
        process = subprocess.Popen(
            [build.python, "-P", str(script), "measure.worker", "serve", str(self._path), name, build.package],
            env={**build.variables(), **_hidden(seat)},
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )
        try:
            channel, _ = self._listener.accept(name, START_S, alive=lambda: process.poll() is None)
        except BaseException as error:
            process.kill()
            process.wait()
            if isinstance(error, (HangError, LostError)):
                raise ArmError(f"no process of {build.python} could be started: {error}") from error
            raise
        return Server(process, channel)

    def forget(self, build: Build) -> None:
        """Ends the servers of a build, whose code has changed: the next one that is asked for is started anew."""
        for seat in [seat for seat in list(self.servers) if seat.build == build]:
            self.servers.pop(seat).end()

    def fork(self, parent: Channel, name: str, **fields: Any) -> Worker:
        """A new process forked from the one at `parent`; fields: what it is told. Raises ArmError where none comes."""
        unique = self._unique(name)
        with _as_arm_error():
            with parent.asking:
                parent.send({"do": "fork", "name": unique, "path": str(self._path), **fields})
            channel, hello = self._listener.accept(unique, FORK_S)
        return Worker(channel, hello["pid"], parent)

    def _unique(self, name: str) -> str:
        return f"{name} #{next(self._count)}"


def _hidden(seat: Seat) -> dict[str, str]:
    """Arms on the CPU see no GPU: where there is one, the forks of a process that has run a backward can run none."""
    return {"CUDA_VISIBLE_DEVICES": ""} if seat.device == "cpu" else {}


def describing(build: Build) -> Seat:
    """The seat of a server that can be asked what there is on every device of this machine."""
    return Seat(build, device="cuda" if has_cuda() else "cpu")


def has_cuda() -> bool:
    """Whether this machine has a GPU of NVIDIA's, told without torch."""
    return Path("/dev/nvidia0").exists()
