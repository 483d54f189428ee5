"""torch.compile: one graph or the named break, the same values as in eager mode, few recompilations."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..compiled import counts, forget
from .rule import ERROR, FULL, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.comparing import allowed, difference
from .tools.pure import Pure, Tensors, classes, lacks_setup_context, pure, seeded, told

# Compiled code may compute in another order: some hundred roundings more than `comparing` allows.
MARGIN = 100
# New values of a Python number: Dynamo takes the second one for a variable, so that more than one graph is a waste.
NEW_VALUES = 4
CORNERS = ("with a 0 among the inputs", "for inputs that are 0")

Transform = Callable[..., Any]


@dataclass(frozen=True)
class Way:
    """A way to call a Function that is compiled and not. make: the callable, from the Function and grad_outputs.

    drops: whether PyTorch itself drops a custom backward there, and differentiates the forward instead.
    """

    name: str
    make: Callable[[Pure], Transform]
    fix: str
    drops: bool = False


def graph(subject: Subject) -> Iterator[Finding]:
    """fullgraph=True captures the forward, with the backward, as one graph."""
    function = _compilable(subject)
    with _fresh():
        try:
            _values(PLAIN, torch.compile(_autograd(function), backend="aot_eager", fullgraph=True), function)
        except Exception as error:  # Dynamo names what it cannot trace
            fix = "compute with PyTorch operations, or put the kernel behind torch.library.custom_op"
            yield Finding(f"the graph breaks: {_reason(error)}", "torch.compile", fix=fix, severity=INFO)


def values(subject: Subject) -> Iterator[Finding | Seen]:
    """Outputs and gradients of compiled code equal those of eager mode, also under torch.func inside the graph."""
    function = _compilable(subject)
    _need_no_randomness(function)
    for way, backend in _ways(subject):
        found = list(_way(function, way, backend))
        yield from found
        if any(isinstance(each, Finding) and each.severity == ERROR for each in found):
            return


def recompilation(subject: Subject) -> Iterator[Finding]:
    """Another value of a Python number, or the same call again, needs no new graph."""
    function = _compilable(subject)
    again = _recompilations(function, [function.inputs] * 3)
    if again:
        message = "the same call is compiled again"
        fix = "let the forward change nothing that Dynamo guards on: globals, class attributes, counters"
        yield Finding(message, "torch.compile", f"{again} recompilations in 2 calls", "0", float(again), fix, INFO)
        return
    if not classes(subject):
        raise NotImplementedError("the Python numbers of an operator are constants to Dynamo")
    for place, value in enumerate(subject.inputs()):
        if type(value) in (int, float):
            yield from _for_new_numbers(function, place, value)


# Compiling


def _compilable(subject: Subject) -> Pure:
    if subject.compiled:
        raise NotImplementedError("it is compiled already")
    return pure(subject)


@contextmanager
def _fresh() -> Iterator[None]:
    """Nothing that was compiled before is there, nothing is left, and Dynamo does not log what it falls back from."""
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.CRITICAL)
    forget()
    try:
        yield
    finally:
        forget()
        log.setLevel(level)


def _reason(error: Exception) -> str:
    """The first two lines of Dynamo's message: what, and why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])[:300]}"


# The ways


def _autograd(function: Pure) -> Transform:
    """The outputs; the gradients are taken outside the graph."""
    return lambda *leaves: function(*leaves)


def _func_grad(function: Pure) -> Transform:
    def loss(*leaves: torch.Tensor) -> torch.Tensor:
        pairs = zip(function.weights, function(*leaves), strict=True)
        return torch.stack([(w.conj() * out).real.sum() for w, out in pairs]).sum()

    return torch.func.grad(loss, argnums=tuple(range(len(function.places))))


def _func_jvp(function: Pure) -> Transform:
    return lambda *leaves: torch.func.jvp(function, leaves, tuple(torch.ones_like(t) for t in leaves))[1]


def _discarded(function: Pure) -> Transform:
    """The arguments that the forward writes to, its result thrown away."""
    mutates = function.subject.intent.mutates

    def call(*leaves: torch.Tensor) -> list[torch.Tensor]:
        arguments = list(function.inputs)
        for place, t in zip(function.places, leaves, strict=True):
            arguments[place] = t
        written = [t.clone() if place in mutates else t for place, t in enumerate(arguments)]
        function.subject.apply(*written)
        return [written[place] for place in mutates]

    return call


PLAIN = Way(
    "torch.compile", _autograd, "keep state on ctx, save with save_for_backward, and give fake kernels that are true"
)
GRAD = Way(
    "torch.compile over torch.func.grad",
    _func_grad,
    "Dynamo differentiates the forward there and drops the backward (pytorch/pytorch #193279): compile the forward "
    "alone and differentiate with autograd, or leave torch.func.grad outside the graph",
    drops=True,
)
JVP = Way(
    "torch.compile over torch.func.jvp",
    _func_jvp,
    "leave torch.func.jvp outside the graph (pytorch/pytorch #192985)",
    drops=True,
)
DISCARDED = Way(
    "torch.compile with the result discarded",
    _discarded,
    "use what apply returns instead of the argument that it wrote to",
)


def _ways(subject: Subject) -> list[tuple[Way, str]]:
    """Each with the cheapest backend that shows it; Inductor last, where there is a C++ compiler."""
    found = [(PLAIN, "aot_eager")]
    if subject.intent.mutates:
        found.append((DISCARDED, "aot_eager"))
    elif not lacks_setup_context(subject):
        found += [(GRAD, "eager"), (JVP, "eager")]
    if shutil.which("c++") or shutil.which("g++") or shutil.which("clang++"):
        found.append((PLAIN, "inductor"))
    return found


def _need_no_randomness(function: Pure) -> None:
    drawn = []
    for seed in (0, 1):
        with seeded(seed):
            drawn.append([out.detach() for out in function(*function.leaves())])
    same = all(torch.equal(a, b) or not a.isfinite().all() for a, b in zip(*drawn, strict=True))
    if function.subject.intent.random or not same:
        raise NotImplementedError("the Function is random: compiled code draws other numbers")


def _way(function: Pure, way: Way, backend: str) -> Iterator[Finding | Seen]:
    call = way.make(function)
    with _fresh():
        compiled = torch.compile(call, backend=backend)
        for name, leaves in _points(function, special=backend != "inductor"):
            try:
                want = _values(way, call, function, leaves)
            except Exception:  # refused in eager mode too
                continue
            try:
                got = _values(way, compiled, function, leaves)
            except Exception as error:  # Dynamo falls back where it can
                yield Finding(f"{way.name} (backend {backend}) raises {_reason(error)}", fix=way.fix, severity=WARNING)
                return
            found = list(_compared(function, way, name, (got, want)))
            yield from found
            if any(isinstance(each, Finding) for each in found):
                return


def _values(way: Way, call: Transform, function: Pure, leaves: Tensors | None = None) -> list[tuple[str, torch.Tensor]]:
    """The results by name; of the plain way the gradients too."""
    plain = way is PLAIN
    fresh = tuple(t.clone().requires_grad_(plain) for t in leaves or function.leaves())
    with seeded():
        results = tuple(call(*fresh))
    named = [(f"{'output' if plain else 'result'} {place}", t.detach()) for place, t in enumerate(results)]
    if plain:
        grads = torch.autograd.grad(results, fresh, function.weights, allow_unused=True)
        named += [(f"gradient {place}", grad) for place, grad in enumerate(grads) if grad is not None]
    return named


def _points(function: Pure, special: bool) -> list[tuple[str, Tensors]]:
    """The given leaves and, where asked, ones with the values at which a backward is most often special."""
    given = function.leaves()
    if not special:
        return [("for the given inputs", given)]
    return [
        ("for the given inputs", given),
        (CORNERS[0], tuple(_with_a_zero(t) for t in given)),
        (CORNERS[1], tuple(torch.zeros_like(t) for t in given)),
        ("for negated inputs", tuple(-t for t in given)),
        ("for large inputs", tuple(1e3 * t for t in given)),
    ]


def _with_a_zero(t: torch.Tensor) -> torch.Tensor:
    changed = t.clone()
    changed.reshape(-1)[:1] = 0
    return changed if changed.is_contiguous() else t * (torch.arange(t.numel()).reshape(t.shape) != 0).to(t)


def _compared(
    function: Pure, way: Way, name: str, pair: tuple[list[tuple[str, torch.Tensor]], list[tuple[str, torch.Tensor]]]
) -> Iterator[Finding | Seen]:
    got, want = pair
    for (where, mine), (_, right) in zip(got, want, strict=False):
        if mine.shape != right.shape or mine.dtype != right.dtype:
            observed, expected = (f"{t.dtype} {list(t.shape)}" for t in (mine, right))
            message = f"{way.name} gives another shape or dtype than eager mode"
            yield Finding(message, where, observed, expected, fix=way.fix)
            return
        rtol, atol = allowed(function.subject, right.dtype, right)
        found = difference(mine, right, MARGIN * rtol, MARGIN * atol, only_finite=True)
        if found is not None:
            # At a corner, such as the 0 of a clamp, a derivative and a custom backward may differ and both be right.
            corner = name in CORNERS and bool(mine.isfinite().all())
            # A gradient that is not the derivative on purpose is lost to PyTorch's own, however it is written.
            lost = way.drops and function.subject.intent.surrogate
            instead = ": PyTorch's derivative of the forward is taken there" if way.drops else ""
            told_of = found.finding(f"{way.name} {name} differs from eager mode{instead}", where, way.fix)
            yield replace(told_of, severity=INFO if corner or lost else ERROR)
            return
    yield Seen(0.0)


# Recompilations


def _recompilations(function: Pure, calls: list[tuple[Any, ...]], apply: Callable[..., Any] | None = None) -> int:
    """How many graphs beyond the first the calls needed."""
    called = replace(function, apply=apply or function.subject.apply)
    with _fresh():
        compiled = torch.compile(lambda *arguments: called.subject.call(arguments, called.apply), backend="eager")
        before = counts()
        for arguments in calls:
            with seeded():
                compiled(*arguments)
        return (counts() - before).recompilations


def _for_new_numbers(function: Pure, place: int, value: float) -> Iterator[Finding]:
    calls = [
        tuple(_another(value, step) if at == place else t for at, t in enumerate(function.inputs))
        for step in range(NEW_VALUES + 1)
    ]
    try:
        for arguments in calls:
            function.subject.call(arguments)
    except Exception as error:  # other numbers may be out of range
        raise NotImplementedError(f"other values of argument {place} are refused: {told(error)}") from error
    mine = _recompilations(function, calls)
    reference = function.subject.reference
    right = _recompilations(function, calls, reference) if reference else NEW_VALUES - 1
    if mine > max(right, 1):
        yield Finding(
            f"each new value of argument {place}, a Python number, is compiled anew",
            f"input {place}",
            f"{mine} recompilations for {NEW_VALUES} new values",
            f"{right} for the reference" if reference else "1",
            float(mine),
            "do not branch on the number, nor convert it, in a way that Dynamo must guard on; or pass it as a tensor",
        )


def _another(value: float, step: int) -> float:
    return value + step if isinstance(value, int) else value * (1 + 0.0625 * step)


RULES = (
    Rule("compile-graph", INFO, "torch.compile captures forward and backward as one graph", graph, level=FULL),
    Rule("compile-values", ERROR, "compiled code gives the values of eager mode", values, level=FULL),
    Rule(
        "recompilation", WARNING, "a new Python number or the same call needs no new graph", recompilation, level=FULL
    ),
)
