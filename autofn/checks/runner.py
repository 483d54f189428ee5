"""Runs rules in forked processes with a time limit: a crash or a hang is a finding, not the end.

A fork knows what its parent knows: a Function defined in a notebook or inside a test needs no importing again.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..records import OK
from ..sources import told
from .rule import ERROR, FULL, QUICK, Finding, Outcome, Rule, not_applicable, outcome_of
from .runs import raised
from .subject import Subject
from .tools.declared import with_declared
from .worker import Worker

# Seconds that one rule may take. A Function that compiles in every rule may need a minute.
LIMIT_S = {QUICK: 30.0, FULL: 240.0}
# And what the C++ sources of a variant may take to compile, on a busy machine.
BUILD_S = 600.0
# So many rules import Dynamo (1.5 s) anyway.
MANY = 40
# Characters of a message that are kept.
LONGEST = 500
LOST = "a Function must raise, never end or block the process; run it with --no-isolate under a debugger"


@dataclass(frozen=True)
class Job:
    """One rule on one subject. subject: makes it, in the worker, so that what cannot be loaded costs its own rows.

    compiles: whether every call of the subject may compile, so that the rule takes as long as one of level full.
    interpreted: whether Triton's interpreter runs its kernels, a hundred times slower than a device: as long, too.
    builds: whether making the subject may compile its sources, which the first job of a worker then does.
    """

    rule: Rule
    subject: Callable[[], Subject]
    compiles: bool = False
    builds: bool = False
    interpreted: bool = False

    @property
    def limit_s(self) -> float:
        return LIMIT_S[FULL if self.compiles or self.interpreted else self.rule.level]


def run(
    jobs: Sequence[Job],
    *,
    isolated: bool = True,
    limit_s: float | None = None,
    started: Callable[[Worker], object] = lambda worker: None,
) -> Generator[Outcome, None, None]:
    """The outcome of each job, in order, each as soon as it is there.

    isolated: in forked processes, a new one after a crash; else here, for debuggers. limit_s: seconds a rule may take,
    by default LIMIT_S of its level. started: told of each worker.
    """
    if not isolated:
        yield from map(judge, jobs)
        return
    waiting = list(jobs)
    while waiting:
        worker = Worker(waiting, judge)
        started(worker)
        try:
            for number, job in enumerate(list(waiting)):
                building_s = BUILD_S if job.builds and number == 0 else 0.0
                answer = worker.answer((limit_s or job.limit_s) + building_s)
                waiting.pop(0)
                if isinstance(answer, str):
                    yield _raised(job, answer, LOST)
                    break
                yield _outcome(answer)
        finally:
            worker.end()


def run_all(lists: Sequence[Sequence[Job]], *, isolated: bool = True) -> Iterator[tuple[int, int, Outcome]]:
    """(list, job, outcome) of the jobs of several lists as each is through; a list is one worker's.

    isolated: as many workers at a time as there are cores. Within a list the order is that of the jobs. Closing the
    generator ends all workers at once.
    """
    if not isolated or not _backward_runs_in_a_fork():
        for which, jobs in enumerate(lists):
            yield from ((which, number, judge(job)) for number, job in enumerate(jobs))
        return
    if sum(map(len, lists)) >= MANY:
        import_for_all()
    if any(job.compiles for jobs in lists for job in jobs):
        import torch._inductor.compile_fx  # noqa: F401
    through: queue.SimpleQueue[tuple[int, int, Outcome] | None] = queue.SimpleQueue()
    stopped = threading.Event()
    workers: list[Worker] = []

    def follow(which: int, jobs: Sequence[Job]) -> None:
        try:
            with closing(run(jobs, started=workers.append)) as outcomes:
                for number, outcome in enumerate(outcomes):
                    through.put((which, number, outcome))
                    if stopped.is_set():
                        return
        finally:
            through.put(None)

    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    following = [pool.submit(follow, which, jobs) for which, jobs in enumerate(lists)]
    try:
        for _ in following:
            while (found := through.get()) is not None:
                yield found
    finally:
        stopped.set()
        for worker in list(workers):
            worker.kill()
        pool.shutdown(cancel_futures=True)
    for each in following:
        each.result()


def import_for_all() -> None:
    """What many rules import at their first call: once here, not in every worker that is forked from here on."""
    import torch._dynamo
    import torch.utils.checkpoint  # noqa: F401


def judge(job: Job) -> Outcome:
    """What the rule says of its subject. What a Function raises under a rule is that rule's finding."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = _judged(job)
    return replace(outcome, seconds=time.perf_counter() - begin)


def _judged(job: Job) -> Outcome:
    try:
        subject = with_declared(job.subject())
    except NotImplementedError as error:
        return not_applicable(str(error))
    except Exception as error:  # a user's file may raise anything
        return _raised(job, f"cannot be loaded: {' '.join(told(error).split())[:LONGEST]}")
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


def _raised(job: Job, message: str, fix: str = "") -> Outcome:
    return outcome_of(job.rule, [Finding(message, severity=ERROR, fix=fix)])


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:LONGEST]


def _backward_runs_in_a_fork() -> bool:
    """Whether a fork can run a backward: not where a GPU is there and this process has run one (torch refuses it)."""

    def backward(_: None) -> Outcome:
        torch.ones((), requires_grad=True).backward()
        return Outcome(OK)

    worker = Worker([None], backward)
    try:
        return not isinstance(worker.answer(LIMIT_S[QUICK]), str)
    finally:
        worker.end()


def _outcome(found: dict[str, Any]) -> Outcome:
    findings = tuple(Finding(**each) for each in found.pop("findings"))
    return Outcome(findings=findings, **found)
