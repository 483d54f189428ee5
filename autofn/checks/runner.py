"""Runs rules in a forked process with a time limit: a crash or a hang is a finding, not the end.

A fork knows what its parent knows: a Function defined in a notebook or inside a test needs no importing again.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import resource
import select
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from .rule import ERROR, FULL, QUICK, Finding, Outcome, Rule, not_applicable, outcome_of
from .runs import raised
from .subject import Subject

# Seconds that one rule may take. A Function that compiles in every rule may need a minute.
LIMIT_S = {QUICK: 30.0, FULL: 240.0}
# So many rules import Dynamo (1.5 s) anyway.
MANY = 40


@dataclass(frozen=True)
class Job:
    """One rule on one subject. subject: makes it, in the worker, so that what cannot be loaded costs its own rows."""

    rule: Rule
    subject: Callable[[], Subject]


def run(jobs: Sequence[Job], *, isolated: bool = True, limit_s: float | None = None) -> Generator[Outcome, None, None]:
    """The outcome of each job, in order, each as soon as it is there.

    isolated: in forked processes, a new one after a crash; else here, for debuggers. limit_s: seconds a rule may take,
    by default LIMIT_S of its level.
    """
    if not isolated:
        yield from map(judge, jobs)
        return
    waiting = list(jobs)
    while waiting:
        for outcome in _in_a_fork(waiting, limit_s):
            waiting.pop(0)
            yield outcome


def run_all(lists: Sequence[Sequence[Job]], *, isolated: bool = True) -> Iterator[tuple[int, int, Outcome]]:
    """(list, job, outcome) of the jobs of several lists as each is through; a list is one worker's.

    isolated: as many workers at a time as there are cores. Within a list the order is that of the jobs.
    """
    if not isolated:
        for which, jobs in enumerate(lists):
            yield from ((which, number, judge(job)) for number, job in enumerate(jobs))
        return
    if sum(map(len, lists)) >= MANY:
        # What many rules import at their first call: once here, not in every worker.
        import torch._dynamo
        import torch.utils.checkpoint  # noqa: F401
    through: queue.SimpleQueue[tuple[int, int, Outcome] | None] = queue.SimpleQueue()
    stopped = threading.Event()

    def follow(which: int, jobs: Sequence[Job]) -> None:
        try:
            outcomes = run(jobs)
            for number, outcome in enumerate(outcomes):
                through.put((which, number, outcome))
                if stopped.is_set():
                    outcomes.close()
                    return
        finally:
            through.put(None)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        following = [pool.submit(follow, which, jobs) for which, jobs in enumerate(lists)]
        try:
            for _ in following:
                while (found := through.get()) is not None:
                    yield found
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)
    for each in following:
        each.result()


def judge(job: Job) -> Outcome:
    """What the rule says of its subject. What a Function raises under a rule is that rule's finding."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _judged(job)
    return replace(outcome, seconds=time.perf_counter() - begin)


def _judged(job: Job) -> Outcome:
    try:
        subject = job.subject()
    except NotImplementedError as error:
        return not_applicable(str(error))
    except Exception as error:  # a user's file may raise anything
        return _raised(job, f"cannot be loaded: {type(error).__name__}: {_line(error)}")
    if job.rule.written and not subject.written:
        return not_applicable("derived from PyTorch's own operations: there is no Function to look into")
    try:
        return outcome_of(job.rule, job.rule.run(subject))
    except NotImplementedError as error:
        return not_applicable(str(error))
    except Exception as error:  # a Function may raise anything
        if raised(subject) is not None:
            return not_applicable("the forward itself raises: see the rule runs")
        return _raised(job, f"raises {type(error).__name__}: {_line(error)}")


def _raised(job: Job, message: str) -> Outcome:
    return outcome_of(job.rule, [Finding(message, severity=ERROR)])


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _in_a_fork(jobs: Sequence[Job], limit_s: float | None) -> Iterator[Outcome]:
    """The outcomes of one worker: all of them, or those up to a crash or a hang, which is the last."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of threads; the child starts none, and waits for none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        _work(jobs, read, write)
    os.close(write)
    ended = False
    try:
        with os.fdopen(read, "rb", buffering=0) as answers:
            lines = _Lines(answers.fileno())
            for job in jobs:
                limit = limit_s or LIMIT_S[job.rule.level]
                line = lines.next(limit)
                if line is None:
                    hung = lines.open
                    if hung:
                        os.kill(pid, signal.SIGKILL)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    ended = True
                    yield _lost(job, f"hangs: no answer after {limit:.0f} s" if hung else _died(status))
                    return
                yield _outcome(json.loads(line))
    finally:
        if not ended:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _work(jobs: Sequence[Job], read: int, write: int) -> None:
    """The worker: an answer a line, then the end, without the parent's exit handlers."""
    try:
        os.close(read)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
        faulthandler.disable()  # a crash is the parent's finding, not a dump on stderr
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        import torch

        torch.set_num_threads(1)
        for job in jobs:
            os.write(write, json.dumps(asdict(judge(job))).encode() + b"\n")
    finally:
        os._exit(0)


class _Lines:
    """Lines of a pipe, each within a time limit. open: false after the other end has gone."""

    def __init__(self, file: int) -> None:
        self.file, self.rest, self.open = file, b"", True

    def next(self, limit_s: float) -> bytes | None:
        """The next line, or None where the time is over or the other end has gone."""
        until = time.monotonic() + limit_s
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.file], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            more = os.read(self.file, 1 << 16)
            if not more:
                self.open = False
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line


def _died(status: int) -> str:
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    return f"crashes: the process ended {how}"


def _lost(job: Job, message: str) -> Outcome:
    fix = "a Function must raise, never end or block the process; run it with --no-isolate under a debugger"
    return outcome_of(job.rule, [Finding(message, severity=ERROR, fix=fix)])


def _outcome(found: dict[str, Any]) -> Outcome:
    findings = tuple(Finding(**each) for each in found.pop("findings"))
    return Outcome(findings=findings, **found)
