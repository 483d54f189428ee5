"""Arms in lockstep: the one mechanism behind every comparison. Imports no torch.

An arm is one variant of one build in processes of its own, so one that crashes or hangs costs only itself. The
coordinator lets the arms take their samples in turn, in random order inside each round, so that drift hits all alike;
an idle arm blocks on its socket. After some rounds all arms are replaced by fresh processes, a new generation: the
process is the sampling unit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..records import Key
from .channel import Message
from .machine import others_busy
from .processes import ANSWER_S, COMPILE_S, ArmError, Build, Processes, UnavailableError, Worker
from .sampling import calls_per_sample

Times = dict[tuple[str, str], list[list[float]]]
"""(arm, phase) -> a list a generation -> seconds a call, one a round. Round i of two arms is a pair."""


HERE = Build()


@dataclass(frozen=True)
class ArmSpec:
    """One arm: a case of a build, its name unique in the comparison. memory: whether to count its bytes."""

    name: str
    key: Key
    build: Build = HERE
    compiled: bool = False
    memory: bool = False


@dataclass(frozen=True)
class Effort:
    """How long to go on.

    budget_s: seconds for all arms and phases together, forking and warming included, compiling not. rounds: samples of
    an arm and phase in each generation. enough: asked after each generation beyond the fewest; true ends the run early.
    fresh_servers: a new interpreter for each generation. Forks of one interpreter share its layout, and ratios differed
    by 10 % between interpreters whose own forks agreed to 1 %; without this an interval is that of one interpreter.
    """

    budget_s: float
    rounds: int = 10
    fewest_generations: int = 6
    most_generations: int = 200
    enough: Callable[[Times], bool] = lambda times: False
    fresh_servers: bool = True
    seed: int = 0


@dataclass
class Outcome:
    """What a run gave, by arm.

    prepared, memory: what its template and its counting process said; no_memory, unavailable, failed: why something is
    missing; numbers: calls in a sample of (case, phase). others_busy: cores that other processes used before it began.
    """

    times: Times = field(default_factory=dict)
    prepared: dict[str, Message] = field(default_factory=dict)
    memory: dict[str, Message] = field(default_factory=dict)
    no_memory: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    others_busy: float | None = None


class Lockstep:
    """One comparison: its arms, what they have given so far, and which still run."""

    def __init__(self, processes: Processes, arms: Sequence[ArmSpec], phases: Sequence[str], effort: Effort) -> None:
        self.processes, self.phases, self.effort = processes, tuple(phases), effort
        self.arms = {arm.name: arm for arm in arms}
        self.templates: dict[str, Worker] = {}
        self.outcome = Outcome()
        self.order = random.Random(effort.seed)

    def run(self) -> Outcome:
        """Times of every arm in every phase, or why there are none. An arm that fails leaves the others running."""
        self.outcome.others_busy = others_busy()
        try:
            self._start()
            begin = time.monotonic()
            for generation in range(self.effort.most_generations):
                spent = time.monotonic() - begin > self.effort.budget_s
                if not self.templates or (
                    generation >= self.effort.fewest_generations and (spent or self.effort.enough(self.outcome.times))
                ):
                    break
                if generation and self.effort.fresh_servers:
                    self._renew()
                self._generation()
        finally:
            for worker in self.templates.values():
                worker.end()
        return self.outcome

    def _renew(self) -> None:
        """New servers, and new templates of the arms that are left: an interpreter's layout is its children's too."""
        alive = list(self.templates)
        for worker in self.templates.values():
            worker.end()
        self.processes.renew()
        self._start(alive)

    def _start(self, names: Sequence[str] | None = None) -> None:
        """A template an arm, in random order: it loads the variant and compiles. None: all arms, for the first time."""
        chosen = list(self.arms.values()) if names is None else [self.arms[name] for name in names]
        for arm in self.order.sample(chosen, len(chosen)):
            with self._dropping(arm.name):
                server = self.processes.server(arm.build, compiler=arm.compiled)
                worker = self.processes.fork(
                    server, arm.name, key=vars(arm.key), phases=self.phases, threads=arm.build.threads
                )
                self.templates[arm.name] = worker
                answer = worker.ask("prepare", COMPILE_S)
                if names is not None:
                    continue
                self.outcome.prepared[arm.name] = answer
                if arm.memory:
                    self._memory(arm.name, worker)

    def _memory(self, name: str, template: Worker) -> None:
        """The bytes of the arm, from a process of its own. What goes wrong there costs those figures alone."""
        worker = self.processes.fork(template.channel, name)
        try:
            self.outcome.memory[name] = worker.ask("memory", COMPILE_S)
        except ArmError as error:
            self.outcome.no_memory[name] = str(error)
        finally:
            worker.end()

    def _generation(self) -> None:
        """Fresh processes of all arms, and `rounds` samples of each phase from each."""
        workers: dict[str, Worker] = {}
        found: Times = {}
        try:
            for name in self._shuffled(self.templates):
                with self._dropping(name):
                    workers[name] = self.processes.fork(self.templates[name].channel, name)
                    answer = workers[name].ask("prepare", COMPILE_S)
                    self.outcome.prepared[name] = {**answer, **self.outcome.prepared[name]}
                    self._calibrate(name, answer["call_s"])
            for phase in self.phases:
                self._rounds(phase, workers, found)
        finally:
            for worker in workers.values():
                worker.end()
        for (name, phase), times in found.items():
            if name in self.templates:
                self.outcome.times.setdefault((name, phase), []).append(times[0])

    def _rounds(self, phase: str, workers: dict[str, Worker], found: Times) -> None:
        for _ in range(self.effort.rounds):
            for name in self._shuffled(workers):
                if name not in self.templates:
                    continue
                with self._dropping(name):
                    number = self.outcome.numbers[str(self.arms[name].key), phase]
                    took = workers[name].ask("sample", ANSWER_S, phase=phase, number=number)["s"]
                    found.setdefault((name, phase), [[]])[0].append(took / number)

    def _calibrate(self, name: str, call_s: dict[str, float]) -> None:
        """How many calls a sample holds: decided once a case, so that all arms time the same code the same way."""
        for phase, shortest in call_s.items():
            self.outcome.numbers.setdefault((str(self.arms[name].key), phase), calls_per_sample(shortest))

    def _shuffled(self, names: dict[str, Worker]) -> list[str]:
        return self.order.sample(list(names), len(names))

    @contextmanager
    def _dropping(self, name: str) -> Iterator[None]:
        """What goes wrong inside ends the arm, not the comparison."""
        try:
            yield
        except UnavailableError as error:
            self.outcome.unavailable[name] = str(error)
        except ArmError as error:
            self.outcome.failed[name] = str(error)
        else:
            return
        worker = self.templates.pop(name, None)
        if worker:
            worker.end()
        for phase in self.phases:
            self.outcome.times.pop((name, phase), None)
