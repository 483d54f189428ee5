"""Arms in lockstep: the one mechanism behind every comparison. Imports no torch.

An arm is one variant of one build in processes of its own, so one that crashes or hangs costs only itself. The
coordinator lets the arms take their samples in turn, in random order inside each round, so that drift hits all alike;
an idle arm blocks on its socket. After some rounds all arms are replaced by fresh processes, a new generation. The
generations are forked from several servers, interpreters that share nothing: what generations of one server have in
common is seen as a difference between servers. What is prepared is prepared on all cores, what is sampled alone.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ..records import Key
from .channel import Channel, Message
from .machine import cores, others_busy
from .processes import ANSWER_S, COMPILE_S, ArmError, Build, Processes, Seat, UnavailableError, Worker
from .protocols import WALL
from .sampling import calls_per_sample
from .spending import Spending

Cell = tuple[str, str, str]
"""(arm, phase, way)."""
Times = dict[Cell, list[list[list[float]]]]
"""A list a server of a list a generation of seconds a call, one a round. Round i of two arms is a pair."""

Value = TypeVar("Value")

HERE = Build()
# In a generation, however long a round takes: of one sample it could not be told whether something disturbed it.
FEWEST_ROUNDS = 2


@dataclass(frozen=True)
class ArmSpec:
    """One arm: a case of a build, its name unique in the comparison.

    memory, error: whether its bytes are counted, and its error against the truth is found.
    """

    name: str
    key: Key
    build: Build = HERE
    compiled: bool = False
    memory: bool = False
    error: bool = False

    def seat(self, number: int) -> Seat:
        return Seat(self.build, number, self.key.device)


@dataclass(frozen=True)
class Effort:
    """How long to go on.

    A pass is a generation of each server, in random order: a disturbance of some seconds then hits one generation of
    several servers, not all of one. budget_s: seconds of passes; none begins later, preparing is not counted. rounds:
    samples of an arm and phase in each generation. enough: asked after each pass but the first, for one generation a
    server is no estimate to rely on; true ends the run early. phase_s: seconds of a phase in a generation after which
    no further round of it begins, once there are two. first_calls: whether a first call is to tell what compiling
    costs: the first server then has compiled nothing before, which takes a second more for each arm that compiles.
    """

    budget_s: float
    rounds: int = 12
    servers: int = 6
    most_passes: int = 50
    enough: Callable[[Times], bool] = lambda times: False
    seed: int = 0
    phase_s: float = math.inf
    first_calls: bool = True


@dataclass
class Outcome:
    """What a run gave, by arm.

    prepared: what its template said. memory, error: what the processes said that looked at its bytes and values;
    no_memory, no_error, unavailable, failed: why something is missing. no_way: why a way cannot be taken of an arm that
    has others. numbers: calls in a sample of (case, phase, way). states: what the device said around each sample, in
    the shape of the times; None of a CPU. others_busy: cores that other processes used before it began. spent_s: wall
    seconds of "servers" (interpreters started, torch and the compiler imported), "templates" (variants loaded, compiled
    and looked at), "forks" (generations started and ended), "warm-up" (their inputs made, warmed up and calibrated) and
    "samples".
    """

    times: Times = field(default_factory=dict)
    prepared: dict[str, Message] = field(default_factory=dict)
    memory: dict[str, Message] = field(default_factory=dict)
    no_memory: dict[str, str] = field(default_factory=dict)
    error: dict[str, Message] = field(default_factory=dict)
    no_error: dict[str, str] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    no_way: dict[Cell, str] = field(default_factory=dict)
    numbers: dict[Cell, int] = field(default_factory=dict)
    states: dict[Cell, list[list[list[Message | None]]]] = field(default_factory=dict)
    others_busy: float | None = None
    spent_s: dict[str, float] = field(default_factory=dict)


class Lockstep:
    """One comparison: its arms, what they have given so far, and which still run."""

    def __init__(
        self,
        processes: Processes,
        arms: Sequence[ArmSpec],
        phases: Sequence[str],
        effort: Effort,
        ways: Sequence[str] = (WALL,),
    ) -> None:
        self.processes, self.phases, self.ways, self.effort = processes, tuple(phases), tuple(ways), effort
        self.arms = {arm.name: arm for arm in arms}
        # (arm, number of the server) -> the process that its generations are forked from.
        self.templates: dict[tuple[str, int], Worker] = {}
        self.spending = Spending()
        self.outcome = Outcome(spent_s=self.spending.seconds)
        self.order = random.Random(effort.seed)

    @property
    def threads(self) -> int:
        """The most that an arm runs on."""
        return max(arm.build.threads for arm in self.arms.values())

    @property
    def alive(self) -> list[str]:
        """The arms that nothing has ended."""
        return [name for name in self.arms if name not in self.outcome.unavailable and name not in self.outcome.failed]

    def run(self) -> Outcome:
        """Times of every arm in every phase, or why there are none. An arm that fails leaves the others running."""
        self.outcome.others_busy = others_busy()
        try:
            with self.spending.shared():
                self._prepare_templates()
            begin = time.monotonic()
            for done in range(self.effort.most_passes):
                spent = time.monotonic() - begin > self.effort.budget_s
                if not self.alive or (done and spent) or (done > 1 and self.effort.enough(self.outcome.times)):
                    break
                for number in self._shuffled(range(self.effort.servers)):
                    self._generation(number)
        finally:
            end_all(list(self.templates.values()))
        return self.outcome

    def _prepare_templates(self) -> None:
        """Starts the servers, and forks their templates, all cores busy.

        Those of the first server come before the others: an arm that breaks there is asked for nowhere else.
        """
        seats = [dict.fromkeys(arm.seat(number) for arm in self.arms.values()) for number in range(self.effort.servers)]
        start = [partial(self._server, seat) for there in seats for seat in there]
        templates = [partial(self._template, name, 0) for name in self._shuffled(self.arms)]
        # The templates wait for the first server, so the second one starts beside it.
        beside = len(seats[0]) * 2
        in_parallel([*start[:beside], *templates, *start[beside:]], cores())
        others = [(name, number) for number in range(1, self.effort.servers) for name in self.alive]
        in_parallel([partial(self._template, *one) for one in self._shuffled(others)], cores())

    def _server(self, seat: Seat) -> None:
        compiler = any(arm.compiled and arm.seat(seat.number) == seat for arm in self.arms.values())
        # The templates that need it say that it could not be started.
        with suppress(ArmError), self.spending.part("servers"):
            self._seated(seat, compiler)

    def _seated(self, seat: Seat, compiler: bool) -> Channel:
        return self.processes.server(seat, compiler=compiler, warm=seat.number > 0 or not self.effort.first_calls)

    def _template(self, name: str, number: int) -> None:
        """The process that has loaded and compiled the arm, forked from that server."""
        arm = self.arms[name]
        with self._dropping(name):
            with self.spending.part("servers"):
                server = self._seated(arm.seat(number), arm.compiled)
            with self.spending.part("templates"):
                self._load(arm, number, server)

    def _load(self, arm: ArmSpec, number: int, server: Channel) -> None:
        name = arm.name
        worker = self.processes.fork(
            server, name, key=vars(arm.key), phases=self.phases, ways=self.ways, threads=arm.build.threads
        )
        self.templates[name, number] = worker
        answer = worker.ask("prepare", COMPILE_S)
        if name in self.outcome.prepared:
            return
        self.outcome.prepared[name] = answer
        if arm.memory:
            self._look(name, worker, "memory", self.outcome.memory, self.outcome.no_memory)
        if arm.error:
            self._look(name, worker, "error", self.outcome.error, self.outcome.no_error)

    def _look(self, name: str, template: Worker, at: str, found: dict[str, Message], missing: dict[str, str]) -> None:
        """What is not timed, from a process of its own. What goes wrong there costs those figures alone."""
        worker = self.processes.fork(template.channel, name)
        try:
            found[name] = worker.ask(at, COMPILE_S)
        except ArmError as error:
            missing[name] = str(error)
        finally:
            worker.end()

    def _generation(self, number: int) -> None:
        """Fresh processes of all arms, forked from one server, and `rounds` samples of each phase from each."""
        workers: dict[str, Worker] = {}
        found: dict[Cell, list[Message]] = {}
        try:
            tasks = [partial(self._prepare, name, number, workers) for name in self._shuffled(self.alive)]
            with self.spending.shared():
                in_parallel(tasks, max(1, cores() // self.threads))
            with self.spending.on("samples"):
                for way in self.ways:
                    for phase in self.phases:
                        self._rounds(phase, way, workers, found)
        finally:
            with self.spending.on("forks"):
                end_all(list(workers.values()))
        for cell, samples in found.items():
            if cell[0] in self.alive and cell not in self.outcome.no_way:
                self._keep(cell, number, samples)

    def _prepare(self, name: str, number: int, workers: dict[str, Worker]) -> None:
        with self._dropping(name):
            with self.spending.part("forks"):
                workers[name] = self.processes.fork(self.templates[name, number].channel, name)
            with self.spending.part("warm-up"):
                answer = workers[name].ask("prepare", COMPILE_S)
            self.outcome.prepared[name] = {**answer, **self.outcome.prepared[name]}
            self._calibrate(name, answer)

    def _calibrate(self, name: str, answer: Message) -> None:
        """How many calls a sample holds: decided once a case, so that all arms time the same code the same way."""
        for way, shortest in answer["call_s"].items():
            for phase, call_s in shortest.items():
                self.outcome.numbers.setdefault((str(self.arms[name].key), phase, way), calls_per_sample(call_s))
        for way, reasons in answer["no_way"].items():
            for phase, reason in reasons.items():
                self._give_up((name, phase, way), reason)

    def _rounds(self, phase: str, way: str, workers: dict[str, Worker], found: dict[Cell, list[Message]]) -> None:
        begin = time.monotonic()
        for done in range(self.effort.rounds):
            if done >= FEWEST_ROUNDS and time.monotonic() - begin > self.effort.phase_s:
                break
            for name in self._shuffled(workers):
                cell = name, phase, way
                if name not in self.alive or cell in self.outcome.no_way:
                    continue
                with self._dropping(name), self._giving_up(cell):
                    number = self.outcome.numbers[str(self.arms[name].key), phase, way]
                    answer = workers[name].ask("sample", ANSWER_S, phase=phase, way=way, number=number)
                    found.setdefault(cell, []).append(answer)

    def _keep(self, cell: Cell, number: int, samples: list[Message]) -> None:
        """Adds the samples of a generation to those of its server."""
        name, phase, way = cell
        calls = self.outcome.numbers[str(self.arms[name].key), phase, way]
        _of_server(self.outcome.times, cell, number).append([sample["s"] / calls for sample in samples])
        _of_server(self.outcome.states, cell, number).append([sample.get("state") for sample in samples])

    def _shuffled(self, values: Iterable[Value]) -> list[Value]:
        ordered = list(values)
        return self.order.sample(ordered, len(ordered))

    @contextmanager
    def _giving_up(self, cell: Cell) -> Iterator[None]:
        """What is not available inside costs this way alone, unless it is the wall: then it is the arm."""
        try:
            yield
        except UnavailableError as error:
            if cell[2] == WALL:
                raise
            self._give_up(cell, str(error))

    def _give_up(self, cell: Cell, reason: str) -> None:
        self.outcome.no_way[cell] = reason
        self.outcome.times.pop(cell, None)
        self.outcome.states.pop(cell, None)

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
        end_all([self.templates.pop(one) for one in list(self.templates) if one[0] == name])
        for cell in [cell for cell in self.outcome.times if cell[0] == name]:
            self.outcome.times.pop(cell)


def _of_server(nested: dict[Cell, Any], cell: Cell, number: int) -> list[Any]:
    """The list of a server's generations. A server that has given none has no list in it."""
    by_server: list[Any] = nested.setdefault(cell, [])
    while len(by_server) <= number:
        by_server.append([])
    found: list[Any] = by_server[number]
    return found


def in_parallel(tasks: Sequence[Callable[[], None]], width: int) -> None:
    """Does all of them, `width` at a time, and begins them in their order. Raises what the first of them raised."""
    pool = ThreadPoolExecutor(width)
    try:
        for future in [pool.submit(task) for task in tasks]:
            future.result()
    finally:
        # Where one was interrupted, the others need not be waited for: their processes end with the coordinator's.
        pool.shutdown(wait=False, cancel_futures=True)


def end_all(workers: Sequence[Worker]) -> None:
    """Ends processes, all at once, and waits until they have."""
    for worker in workers:
        worker.channel.close()
    for worker in workers:
        worker.end()
