"""A forked process that judges jobs one after the other, an answer a line, and the pipe to it."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NoReturn

from .rule import Outcome

# One fork at a time: a child forked between another's pipe and its closing would hold that pipe open for ever, and a
# crash would be told as a hang.
_FORKING = threading.Lock()


class Worker:
    """The process. `answer` is asked once a job; `end` must be called, `kill` may be, from any thread."""

    def __init__(self, jobs: Sequence[Any], judge: Callable[[Any], Outcome]) -> None:
        self._ended: int | None = None
        self._waiting = threading.Lock()
        self._rest = b""
        with _FORKING, warnings.catch_warnings():
            # Python 3.12 warns of threads; the child starts none, and waits for none.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._read, write = os.pipe()
            self.pid = os.fork()
            if not self.pid:
                _work(jobs, judge, self._read, write)
            os.close(write)

    def answer(self, limit_s: float) -> dict[str, Any] | str:
        """The outcome of the next job as plain data, or in words how the process was lost, which is over then."""
        until = time.monotonic() + limit_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                self.kill()
                return f"hangs: no answer after {limit_s:.0f} s"
            more = os.read(self._read, 1 << 16)
            if not more:
                return _died(self._status())
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        return found

    def kill(self) -> None:
        """Ends the process, and what it has started, at once."""
        with self._waiting:
            if self._ended is None:
                for end in (os.killpg, os.kill):
                    with suppress(ProcessLookupError):
                        end(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the process and lets go of it."""
        self.kill()
        self._status()
        os.close(self._read)

    def _status(self) -> int:
        """The exit status, negative for a signal; waits for the end."""
        with self._waiting:
            if self._ended is None:
                self._ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            return self._ended


def _work(jobs: Sequence[Any], judge: Callable[[Any], Outcome], read: int, write: int) -> NoReturn:
    """The child: an answer a line, then the end, without the parent's exit handlers."""
    try:
        os.close(read)
        # Ctrl-C reaches the parent alone, which ends this process and whatever the Function has started.
        os.setsid()
        faulthandler.disable()  # a crash is the parent's finding, not a dump on stderr
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        import torch

        torch.set_num_threads(1)
        _compile_here()
        with os.fdopen(write, "wb") as answers:
            for job in jobs:
                answers.write(json.dumps(asdict(judge(job))).encode() + b"\n")
                answers.flush()
    finally:
        os._exit(0)


def _compile_here() -> None:
    """Inductor compiles in this process: what it has started in the parent, and would wait for, is not in a fork."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    config = sys.modules.get("torch._inductor.config")
    if config is not None:
        config.compile_threads = 1  # type: ignore[attr-defined]


def _died(status: int) -> str:
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    return f"crashes: the process ended {how}"
