"""When memory goes: at once when the last reference does, when the backward has run, and not at some later time."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from ..observe.counters import counter
from .rule import WARNING, Finding, Rule
from .subject import Subject
from .tools.alive import described, gradients, new_nodes, new_tensors, only_new_objects, without_gradients
from .tools.holding import is_generator_state, kept_on, need_a_function, own_nodes
from .tools.passes import Pass, forward, keeping_the_generators, named_tensors, working

SAVE = "hand outputs and inputs to ctx.save_for_backward(...); keep only plain data on ctx"
# The first call fills caches, the second what the first one's caches led to; a bounded cache may hold a few calls.
WARM_UP_CALLS = 8
CALLS = 6
# What still grows is called on: a cache of 128 entries, as functools.lru_cache's, is full by then. And for how long.
MORE_CALLS, MORE_S = 200, 3.0
# A number as a tensor, such as a scale, is 8 bytes: nobody's leak.
NUMBER_BYTES = 16


def reference_cycle(subject: Subject) -> Iterator[Finding]:
    """With the garbage collector off all that a call made must go with the last reference to its output."""
    working(subject)
    for what, call in PHASES:
        call(subject)
        with keeping_the_generators(), only_new_objects():
            call(subject)
            tensors, nodes = len(new_tensors()), new_nodes()
            shapes = described(new_tensors())
            gc.collect()
            tensors, nodes = tensors - len(new_tensors()), nodes - new_nodes()
        if tensors > 0 or nodes > 0:
            yield Finding(
                f"after {what}, when the output is gone, {shapes} and {nodes} graph nodes stay alive until the garbage "
                "collector runs: a reference cycle",
                _cyclic_path(subject),
                f"{tensors} tensors freed by the collector",
                "0",
                fix=SAVE,
            )
            return


def _forward(subject: Subject) -> None:
    forward(subject)


def _forward_backward(subject: Subject) -> None:
    forward(subject).backward()


Call = Callable[[Subject], None]
PHASES: tuple[tuple[str, Call], ...] = (
    ("forward without its backward", _forward),
    ("forward and backward", _forward_backward),
)


def _cyclic_path(subject: Subject) -> str:
    """The attribute of a ctx that leads back to an output or an argument with a graph, where there is one."""
    one = forward(subject)
    outputs = {id(out) for out in one.outputs}
    for node in own_nodes(one):
        for kept in kept_on(node, one.inputs):
            if id(kept.value) in outputs or (isinstance(kept.value, torch.Tensor) and kept.value.grad_fn is not None):
                return kept.path
    return ""


def leak(subject: Subject) -> Iterator[Finding]:
    """Neither bytes nor tensors may grow with the number of calls, whether the backward runs or not."""
    working(subject)
    for what, call in PHASES:
        grown = _after_each_call(subject, call)
        if (_grows(grown.live) or _grows(grown.tensors)) and _grows_on(subject, call):
            yield Finding(
                f"each {what} leaves memory behind that even the garbage collector does not free",
                observed=f"{grown.live[-1] - grown.live[0]} bytes more after {CALLS - 1} calls",
                expected="0 bytes",
                fix="drop what a module, class or closure keeps of a call, or keep it on ctx; bound a cache",
            )
            return
        left = without_gradients(grown.last)
        if left:
            yield Finding(
                f"what the last {what} made stays alive without its outputs: a module, class or closure keeps it",
                observed=described(left),
                expected="nothing",
                fix="keep what belongs to a call on its ctx",
                severity=WARNING,
            )
            return


@dataclass(frozen=True)
class _Grown:
    """What the warm-up did not make and that was alive after each call, when all that the call returned was gone."""

    live: list[int]
    tensors: list[int]
    last: list[torch.Tensor]


def _after_each_call(subject: Subject, call: Call) -> _Grown:
    with keeping_the_generators():
        _called(subject, call, WARM_UP_CALLS)
        with only_new_objects():
            live, tensors = _counted(subject, call)
            last = new_tensors()
    return _Grown(live, tensors, last)


def _grows_on(subject: Subject, call: Call) -> bool:
    """Whether every call leaves something more after many others too: what a full cache drops is counted as well."""
    with keeping_the_generators():
        # Outside of `only_new_objects` the tensors are all that are alive, new or not.
        return any(_grows(counts) for counts in _counted(subject, call, after=MORE_CALLS))


def _called(subject: Subject, call: Call, times: int) -> None:
    """Fewer times where calls take long."""
    begin = time.perf_counter()
    for done in range(times):
        if done >= WARM_UP_CALLS and time.perf_counter() - begin > MORE_S:
            return
        call(subject)


def _counted(subject: Subject, call: Call, after: int = 0) -> tuple[list[int], list[int]]:
    """Bytes, and tensors alive, after each of some calls and a collection. after: further calls before them.

    The bytes of those are counted too: of what is freed the counter knows only what it has seen allocated.
    """
    counted, tensors = counter(subject.device), []
    counted.start()
    try:
        _called(subject, call, after)
        for _ in range(CALLS):
            call(subject)
            gc.collect()
            tensors.append(len(new_tensors()))
            counted.mark()
    finally:
        readings = counted.stop()
    return [reading.live for reading in readings], tensors


def _grows(counts: list[int]) -> bool:
    return all(later > earlier for earlier, later in pairwise(counts))


def held_after_backward(subject: Subject) -> Iterator[Finding]:
    """When a backward has freed its graph, the output alone may hold memory."""
    working(subject)
    with keeping_the_generators(), only_new_objects():
        held = min(_bytes_held(subject) for _ in range(2))
        if held <= 0:
            return
        inputs = subject.inputs()
        weights = forward(subject, inputs).weights
        gc.collect()
        theirs = {id(t) for t in new_tensors()}
        one = Pass(inputs, subject.call(inputs), weights)
        need_a_function(one)
        _backward_everywhere(one)
        tensors = [t for t in new_tensors() if id(t) not in theirs | {id(out) for out in one.outputs}]
    left = [t for t in without_gradients(tensors) if t.numel() > 1 and not is_generator_state(t)]
    accumulated = sum(grad.untyped_storage().nbytes() for grad in gradients())
    if left or held > NUMBER_BYTES + accumulated + sum(t.untyped_storage().nbytes() for t in tensors):
        yield Finding(
            f"{held} bytes stay allocated after the backward, though nothing but the output is left of the call",
            ", ".join(kept.path for node in own_nodes(one) for kept in kept_on(node, one.inputs)),
            described(left) if left else "memory that no tensor in Python explains",
            "nothing",
            fix=SAVE,
        )


def _backward_everywhere(one: Pass) -> None:
    """Through all nodes: torch.autograd.grad leaves out, and does not free, what leads to captured parameters alone."""
    chosen = [(out, w) for out, w in zip(one.outputs, one.weights, strict=True) if out.requires_grad and w is not None]
    outs, weights = zip(*chosen, strict=True)
    torch.autograd.backward(outs, weights)
    for t in new_tensors():
        if t.is_leaf and t.requires_grad:
            t.grad = None
    gc.collect()


def _bytes_held(subject: Subject) -> int:
    """Bytes that a forward and its backward leave allocated beside inputs and outputs, which are still there."""
    inputs = subject.inputs()
    weights = forward(subject, inputs).weights
    counted = counter(subject.device)
    counted.start()
    try:
        one = Pass(inputs, subject.call(inputs), weights)
        _backward_everywhere(one)
        counted.mark()
    finally:
        live = counted.stop()[0].live
    theirs = {t.untyped_storage().data_ptr() for _, t in named_tensors(inputs)}
    new = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in one.outputs}
    return live - sum(nbytes for address, nbytes in new.items() if address not in theirs)


RULES = (
    Rule("reference-cycle", "error", "what a call made goes without the garbage collector", reference_cycle),
    Rule("leak", "error", "memory does not grow with the number of calls", leak),
    Rule("held-after-backward", "error", "the backward frees what was kept for it", held_after_backward, written=True),
)
