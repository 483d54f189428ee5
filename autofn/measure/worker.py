"""The processes of an arm. Three roles, each forked from the one before, all serving the coordinator's messages:

server      an interpreter of a build (a Python with its packages): has imported torch, and forks a template an arm;
template    has loaded the variant and called every phase once, so all is imported and compiled; it forks generations;
generation  prepares inputs of its own, warms up, and takes samples, each with its data somewhere else.

A fork costs 10 ms where an interpreter costs 0.7 s, and one that compiles 3 s.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, NoReturn

from .channel import Channel, LostError, Message, connect
from .protocols import WALL

TRAINING_STEP = "forward_backward"


def serve(path: str, name: str, package: str) -> None:
    """The server: answers until the coordinator goes away.

    path: the coordinator's socket. package: whose registry is asked; the installed `autofn` need not be the one that
    this file belongs to.
    """
    with _importing():
        import torch

        torch.set_num_threads(1)
        _take_nothing_from_elsewhere(package)
        registry = importlib.import_module(f"{package}.registry")
        from ..case import prepare  # noqa: F401  (imported here once, for all forks)
        from ..observe import memory  # noqa: F401
        from . import device_state, placement, sampling, ways  # noqa: F401

    channel = connect(path, {"name": name, "pid": os.getpid()})
    while True:
        try:
            message = channel.receive()
        except LostError:
            return
        if message["do"] == "names":
            channel.send({"names": list(registry.names())})
        elif message["do"] == "describe":
            channel.send(_describe(registry, message["function"]))
        elif message["do"] == "compiler":
            _import_compiler()
            if message["warm"]:
                _warm_compiler()
            channel.send({"ok": True})
        elif message["do"] == "fork":
            _fork(channel, message, Template, registry)
        elif message["do"] == "wait":
            channel.send({"status": _wait(message["pid"])})


def _take_nothing_from_elsewhere(package: str) -> None:
    """Where a build is on the path, an editable installation of the same package offers what the build lacks, such as
    its extension: another commit's, and so it must not be found.
    """
    if PathFinder.find_spec(package) is not None:
        theirs = f"__editable___{package}_"
        sys.meta_path[:] = [found for found in sys.meta_path if not getattr(found, "__module__", "").startswith(theirs)]


def _describe(registry: ModuleType, function: str) -> Message:
    """What the installed package knows of a Function, and the conditions on each device; {} where it lacks it."""
    if function not in registry.every_name():
        return {}
    spec = registry.spec(function)
    return {
        "version": spec.version,
        "dtypes": list(spec.dtypes),
        "workloads": list(spec.workloads),
        "variants": [(found.name, found.kind) for found in registry.variants(function)],
        # Asked for in a process of its own: a server that has touched CUDA cannot fork any that use it.
        "conditions": _in_a_fork(_conditions),
    }


def _conditions() -> Message:
    import torch

    from .machine import conditions

    devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    return {device: conditions(device, 1) for device in devices}


def _in_a_fork(function: Callable[[], Message]) -> Message:
    """What the function returns in a forked process, which then ends."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            with os.fdopen(write, "w") as file:
                json.dump(function(), file)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    found: Message = json.loads(text)
    return found


def _import_compiler() -> None:
    from .. import compiled

    with _importing():
        import torch._dynamo
        import torch._inductor.compile_fx  # noqa: F401

        compiled.find_vectors()


def _warm_compiler() -> None:
    """Compiles something, so that what compiling imports is there for all forks: 1 s here, 1 s less in each of them."""
    import torch

    with _importing():
        x = torch.ones(8, 8, requires_grad=True)
        torch.compile(_something, fullgraph=True)(x).sum().backward()
        torch._dynamo.reset()


def _something(x: Any) -> Any:
    return x.sin() * x.mean()


@contextmanager
def _importing() -> Iterator[None]:
    """Collects no garbage inside, and none of what is there at the end ever.

    Looking again and again through all that is imported takes a third of importing Inductor; and a fork that looked
    through it would copy its pages, in 0.15 s.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _return_freed_pages() -> None:
    """Gives back what malloc keeps: forks would inherit it, and copy each page that they write. Where glibc can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _wait(pid: int) -> int:
    """The exit status of a child, negative for a signal; 0 for one that has been waited for."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0


def _fork(channel: Channel, message: Message, role: type[Role], *state: Any) -> None:
    """Forks a process that serves as `role` on a connection of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        return
    channel.close()
    _serve_and_exit(role, message, state)


def _serve_and_exit(role: type[Role], message: Message, state: tuple[Any, ...]) -> NoReturn:
    status = 0
    try:
        own = connect(message["path"], {"name": message["name"], "pid": os.getpid()})
        role(own, message, *state).serve()
    except LostError:
        pass
    except BaseException:
        import traceback

        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Role:
    """Answers messages by the method of their name; what a Function raises is an answer too."""

    def __init__(self, channel: Channel, message: Message) -> None:
        self.channel = channel
        self.message = message

    def serve(self) -> None:
        while True:
            message = self.channel.receive()
            if message["do"] == "fork":
                _fork(self.channel, message, Generation, self)
                continue
            if message["do"] == "wait":
                self.channel.send({"status": _wait(message["pid"])})
                continue
            self.channel.send(self._answer(message))

    def _answer(self, message: Message) -> Message:
        try:
            answer: Message = getattr(self, message["do"])(**message.get("with", {}))
            return answer
        except NotImplementedError as error:
            return {"unavailable": str(error)}
        except Exception as error:  # a Function may raise anything: it is the arm's result
            from ..sources import told

            return {"failed": told(error)}


class Template(Role):
    """Loads the variant, and calls every phase once so that generations find all imported and compiled."""

    def __init__(self, channel: Channel, message: Message, registry: ModuleType) -> None:
        import torch

        super().__init__(channel, message)
        torch.set_num_threads(message["threads"])
        self.spec = registry.spec(message["key"]["function"])
        self.load = lambda: registry.load(self.spec.name, message["key"]["variant"], message["key"]["device"])
        self.apply: Any = None
        self.runs = message["threads"] == 1 and message["key"]["device"] == "cpu"

    def prepare(self) -> Message:
        """Loads, compiles; the seconds of the first call of each phase, and what was compiled.

        With more than one thread nothing may run before the fork: a child of a process that has had a parallel region
        hangs in its own; nor on CUDA, which a forked child cannot use. The generations then compile for themselves,
        from the disk cache.
        """
        self.apply = self.load()
        if not self.runs:
            return {}
        found = first_calls(self.spec, self.message, self.apply)
        gc.collect()
        gc.freeze()
        _return_freed_pages()
        return found


def first_calls(spec: Any, message: Message, apply: Any) -> Message:
    """Seconds of the very first call of each phase, compiling included, and what was compiled."""
    from .. import compiled
    from ..case import Key, denormal_inputs, explaining, prepare
    from . import phases

    before = compiled.counts()
    case = prepare(spec, Key(**message["key"]), apply)
    first = {}
    for phase in message["phases"]:
        begin = time.perf_counter()
        with explaining(case):
            phases.SAMPLE[phase](case, 1, time.perf_counter)
        first[phase] = time.perf_counter() - begin
    return {
        "first_call_s": first,
        "compilation": {**asdict(compiled.counts() - before), "dynamic": compiled.dynamic_shapes()},
        "denormal_inputs": denormal_inputs(case),
    }


class Generation(Role):
    """Inputs of its own, warmed, and samples on demand."""

    def __init__(self, channel: Channel, message: Message, template: Template) -> None:
        super().__init__(channel, {**template.message, **message})
        self.template = template
        # Each fork draws for itself; what is kept decides where everything after it lies.
        self.draw = random.Random()
        self.kept: list[Any] = []
        self.call_s: dict[str, dict[str, float]] = {}

    def prepare(self) -> Message:
        """Makes the inputs and warms every phase in every way.

        The shortest call of each in seconds, why a way cannot be taken, and first calls where the template had none.
        """
        import torch

        from .. import extension
        from ..case import Key, prepare
        from . import device_clock, placement, sampling, ways

        template, key = self.template, Key(**self.message["key"])
        torch.set_num_threads(self.message["threads"])
        first = {} if template.runs else first_calls(template.spec, self.message, template.apply)
        # Each build has an extension of its own: what else is loaded lies at one place for all arms.
        if extension.EXTENSION in sys.modules:
            placement.move_code(str(sys.modules[extension.EXTENSION].__file__))
        self.kept = placement.shake_heap(self.draw)
        case = prepare(template.spec, key, template.apply)
        self.placement = placement.Placement(case, self.draw)
        self.clock: Any = device_clock.clock_of(case) if key.device == "cuda" else time.perf_counter
        self.samplers = ways.samplers(key.device, self.message["ways"])
        no_way: dict[str, dict[str, str]] = {}
        for way in self.message["ways"]:
            self.call_s[way] = {}
            begin = time.perf_counter()
            # A training step warms what the other phases need.
            for phase in sorted(self.message["phases"], key=lambda phase: phase != TRAINING_STEP):
                spent_s = time.perf_counter() - begin if TRAINING_STEP in self.call_s[way] else 0.0
                enough_s = max(0.0, sampling.WARM_S - spent_s)
                try:
                    self.call_s[way][phase] = self._warm_up(phase, way, enough_s)
                except NotImplementedError as error:
                    if way == WALL:
                        raise
                    no_way.setdefault(way, {})[phase] = str(error)
        return {**first, "call_s": self.call_s, "no_way": no_way}

    def _warm_up(self, phase: str, way: str, enough_s: float) -> float:
        from . import sampling

        case, sample = self.placement.next(), self.samplers[way][phase]
        return sampling.warm_up(lambda number: sample(case, number, self.clock), enough_s)

    def memory(self) -> Message:
        """The bytes of the case, counted in this process, which is then of no use for timing."""
        import torch

        from ..case import Key, prepare
        from ..observe import memory

        torch.set_num_threads(self.message["threads"])
        case = prepare(self.template.spec, Key(**self.message["key"]), self.template.apply)
        return asdict(memory.measure(case))

    def error(self) -> Message:
        """How far the outputs and gradients of the case lie from the truth, by phase."""
        import torch

        from ..case import Key, prepare
        from ..observe import accuracy

        torch.set_num_threads(self.message["threads"])
        case = prepare(self.template.spec, Key(**self.message["key"]), self.template.apply)
        return accuracy.error(self.template.spec, case)

    def sample(self, phase: str, way: str, number: int) -> Message:
        """Seconds that `number` calls took; on CUDA with the state of the device before and after them.

        The data lie at new places. Some calls go before, unclocked: another arm had the caches, and the places are new.
        """
        from . import device_state, sampling

        case, sample = self.placement.next(), self.samplers[way][phase]
        before = sampling.calls_before(self.call_s[way][phase], number)
        if before:
            sample(case, before, self.clock)
        if case.key.device == "cpu":
            return {"s": sample(case, number, self.clock)}
        found = device_state.watched(partial(sample, case, number, self.clock), self.clock.state)
        return {"s": found.seconds, "state": asdict(found)}
