"""The process inside Valgrind: warms a case and has the instructions of its calls counted, as the coordinator asks.

Callgrind collects nothing until it is toggled on. The loops are those of `phases`, whose clock here is the toggle: what
is counted is what is timed, and a backward's graphs are built while nothing is counted.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from itertools import repeat
from types import ModuleType
from typing import Any

import torch

from .. import compiled
from ..case import Case, Key, prepare
from .channel import LostError, Message, connect
from .phases import POOL, SAMPLE, Clock

# Counts of one case; their median leaves out the one in which a table grew or a cache was filled.
REPEATS = 3
# Seconds inside Valgrind, where a call takes fifty times as long, that the calls of one count may take.
COUNT_S = 1.0
# The first calls import and compile; after eight CPython 3.11 has specialised the bytecode.
WARM = 10


def serve(path: str, name: str, package: str) -> None:
    """Answers until the coordinator goes away. path: its socket. package: whose registry is asked."""
    if not torch._C._valgrind_supported_platform():
        raise NotImplementedError("this torch was built without Valgrind's client requests")
    torch.set_num_threads(1)
    registry = importlib.import_module(f"{package}.registry")
    channel = connect(path, {"name": name, "pid": os.getpid()})
    channel.send({"capability": torch.backends.cpu.get_cpu_capability()})
    counter = Counter(registry)
    while True:
        try:
            message = channel.receive()
        except LostError:
            return
        channel.send(counter.answer(message))


class Counter:
    """Counts, one case at a time; dumps are numbered from 1, as Callgrind does."""

    def __init__(self, registry: ModuleType) -> None:
        self.registry = registry
        self.dumps = 0
        self.case: Case | None = None
        # What had been compiled when the case came: one phase may find all compiled by another.
        self.before = compiled.counts()

    def answer(self, message: Message) -> Message:
        """What `count` found; what a Function raises is an answer too."""
        try:
            return self.count(Key(**message["key"]), message["phase"], message["number"], message["compiled"])
        except NotImplementedError as error:
            return {"unavailable": str(error)}
        except Exception as error:  # a Function may raise anything: it is the case's result
            return {"failed": f"{type(error).__name__}: {error}"}

    def count(self, key: Key, phase: str, number: int, graph: bool) -> Message:
        """The numbers of the dumps, of as many of an empty loop, and how many calls are in each.

        graph: whether the variant must have been compiled for its count to be its own.
        """
        case = self._prepared(key)
        number = min(number, _warm(case, phase, number))
        if graph and (compiled.counts() - self.before).graphs < 1:
            raise RuntimeError("no graph was compiled, so the count would be eager's")
        calls = [self._dump(lambda toggle: SAMPLE[phase](case, number, toggle)) for _ in range(REPEATS)]
        empty = EMPTY.get(phase, loop)
        loops = [self._dump(lambda toggle: empty(case, number, toggle)) for _ in range(REPEATS)]
        return {"calls": calls, "empty": loops, "number": number}

    def _prepared(self, key: Key) -> Case:
        if self.case is None or self.case.key != key:
            self.case = None
            compiled.forget()
            self.before = compiled.counts()
            apply: Callable[..., Any] = self.registry.load(key.function, key.variant, key.device)
            self.case = prepare(self.registry.spec(key.function), key, apply)
        return self.case

    def _dump(self, run: Callable[[Clock], object]) -> int:
        """Runs and writes down what was counted since the last dump; the dump's number."""
        run(_toggle)
        torch._C._valgrind_toggle()
        torch._C._valgrind_toggle_and_dump_stats()
        self.dumps += 1
        return self.dumps


def _toggle() -> float:
    """A clock that stands still: asked before and after what counts, it turns the counting on and off."""
    torch._C._valgrind_toggle()
    return 0.0


def _warm(case: Case, phase: str, number: int) -> int:
    """Calls until nothing is imported or specialised any more; how many calls take COUNT_S."""
    SAMPLE[phase](case, 1, time.perf_counter)
    # The processor's time: a busy neighbour must not decide how many calls a count has.
    begin = time.process_time()
    SAMPLE[phase](case, 1, time.perf_counter)
    fit = max(1, int(COUNT_S / (time.process_time() - begin)))
    SAMPLE[phase](case, min(fit, max(number, WARM)), time.perf_counter)
    return fit


def loop(case: Case, number: int, clock: Clock) -> float:
    """The loop of `phases.forward` without the call."""
    case.synchronise()
    begin = clock()
    for _ in repeat(None, number):
        pass
    case.synchronise()
    return clock() - begin


def drain(case: Case, number: int, clock: Clock) -> float:
    """The loop of `phases.backward` without the call."""
    spent = 0.0
    for done in range(0, number, POOL):
        pool = [() for _ in range(min(POOL, number - done))]
        case.synchronise()
        begin = clock()
        while pool:
            pool.pop()
        case.synchronise()
        spent += clock() - begin
    return spent


EMPTY: dict[str, Callable[[Case, int, Clock], float]] = {"backward": drain}
