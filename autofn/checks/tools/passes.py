"""Forward and backward apart: one pass each, with its random numbers fixed; and other arguments to try."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...case import Case
from ...records import Key
from ...spec import dtype_name
from ..rule import Finding
from ..subject import Inputs, Subject, differentiable, leaves, positions
from .comparing import allowed, difference, same_bits

Tensors = tuple[torch.Tensor, ...]
Gradients = tuple[torch.Tensor | None, ...]

SEED = 20


# What to do about state that two calls share.
ON_CTX = (
    "keep what belongs to one call on its ctx (tensors by save_for_backward), not on the class, a module or a global"
)

Change = Callable[[Inputs], Inputs]


@dataclass(frozen=True)
class Pass:
    """A forward whose backward is yet to run."""

    inputs: Inputs
    outputs: Tensors
    weights: Gradients

    def backward(self, **options: Any) -> Gradients:
        """The gradients of the leaves, in the order of `leaves`; options go to torch.autograd.grad."""
        chosen = [
            (out, w) for out, w in zip(self.outputs, self.weights, strict=True) if out.requires_grad and w is not None
        ]
        outs, weights = zip(*chosen, strict=True)
        return torch.autograd.grad(outs, leaves(self.inputs), weights, allow_unused=True, **options)


@dataclass(frozen=True)
class Result:
    """Copies of what a forward and its backward gave."""

    outputs: Tensors
    gradients: Gradients

    @property
    def tensors(self) -> Gradients:
        return *self.outputs, *self.gradients


def forward(subject: Subject, inputs: Inputs | None = None, seed: int = SEED) -> Pass:
    """One forward, on the subject's own arguments unless others are given. All generators start from the seed."""
    given = subject.inputs() if inputs is None else inputs
    reseed(seed)
    outputs = subject.call(given)
    return Pass(given, outputs, subject.grad_outputs(outputs))


def result(subject: Subject, inputs: Inputs | None = None, seed: int = SEED) -> Result:
    """What one forward and its backward give."""
    one = forward(subject, inputs, seed)
    outputs = copied(one.outputs)
    return Result(outputs, copied(one.backward()))  # type: ignore[arg-type]


def case_of(subject: Subject, one: Pass) -> Case:
    """The subject as the harness measures it."""
    key = Key(subject.who, "checked", subject.workload, dtype_name(subject.dtype), subject.device)
    return Case(key, tracked(subject), one.inputs, tuple(w for w in one.weights if w is not None))


def tracked(subject: Subject, apply: Callable[..., Any] | None = None) -> Callable[..., Tensors]:
    """The call, by default of the subject itself, without the outputs that have no gradient."""

    def call(*inputs: Any) -> Tensors:
        return tuple(out for out in subject.call(inputs, apply) if differentiable(out))

    return call


def working(subject: Subject, make: Callable[[], Inputs] | None = None) -> Result:
    """The result, twice the same, on the subject's own arguments or on those of `make`.

    Raises NotImplementedError for a Function that does not get so far: what is wrong with it is a finding
    of the rules on gradients, shapes or determinism.
    """
    make = make or subject.inputs
    if not leaves(make()):
        raise NotImplementedError("no argument requires grad")
    try:
        with keeping_the_generators():
            first, second = result(subject, make()), result(subject, make())
    except Exception as error:  # a Function may raise anything
        raise NotImplementedError(f"forward and backward do not work: {type(error).__name__}: {error}") from error
    if not same_bits(first.tensors, second.tensors):
        raise NotImplementedError("two calls with the same seed differ")
    return first


@contextmanager
def hooks_allowed() -> Iterator[None]:
    """Raises NotImplementedError where PyTorch itself refuses saved-tensor hooks, as within torch.func's transforms."""
    try:
        yield
    except RuntimeError as error:
        if refuses_hooks(error):
            raise NotImplementedError(str(error).splitlines()[0]) from error
        raise


def refuses_hooks(error: Exception) -> bool:
    return "support saved tensor hooks" in str(error)


@contextmanager
def keeping_the_generators() -> Iterator[None]:
    """Within it the generators of PyTorch, Python and NumPy may be seeded and used; afterwards all is as before."""
    import numpy

    states = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])


def reseed(seed: int) -> None:
    """Starts all generators from a seed."""
    import numpy

    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def backward_draws(subject: Subject) -> bool:
    """Whether the backward moves PyTorch's generator on: its result then depends on what else draws numbers."""
    with keeping_the_generators():
        one = forward(subject)
        before = torch.get_rng_state()
        one.backward()
        return not torch.equal(before, torch.get_rng_state())


def backward_needs_a_generator(subject: Subject) -> bool:
    """Whether the backward draws random numbers, even where it restores the generator's state afterwards."""
    with keeping_the_generators():
        one = forward(subject)
        with _Drawing() as drawing:
            one.backward()
    return drawing.draws


class _Drawing(TorchDispatchMode):
    draws = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.draws |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def forward_draws(subject: Subject) -> bool:
    """Whether the forward moves PyTorch's generator on."""
    with keeping_the_generators():
        inputs = subject.inputs()
        before = torch.get_rng_state()
        subject.call(inputs)
        return not torch.equal(before, torch.get_rng_state())


def is_compiled(subject: Subject) -> bool:
    """Whether it is known to run through torch.compile, and would be compiled again where settings change."""
    marks = ("_torchdynamo_orig_callable", "_orig_mod")
    return subject.compiled or any(hasattr(subject.apply, mark) for mark in marks)


def copied(tensors: Sequence[torch.Tensor | None]) -> Gradients:
    return tuple(None if t is None else t.detach().clone() for t in tensors)


def compared(
    subject: Subject, got: Result, want: Result, message: str, fix: str, inputs: Inputs | None = None
) -> Iterator[Finding]:
    """A finding for the first output or gradient that is not as it should be."""
    places = positions(subject.inputs() if inputs is None else inputs)
    names = [f"output {i}" for i in range(len(want.outputs))] + [f"gradient of input {i}" for i in places]
    for where, mine, right in zip(names, got.tensors, want.tensors, strict=True):
        if mine is None or right is None:
            if mine is not right:
                yield Finding(message, where, _none_or_tensor(mine), _none_or_tensor(right), fix=fix)
                return
            continue
        if mine.shape != right.shape:
            yield Finding(message, where, f"shape {list(mine.shape)}", f"shape {list(right.shape)}", fix=fix)
            return
        found = difference(mine, right, *allowed(subject, right.dtype, right))
        if found is not None:
            yield found.finding(message, where, fix)
            return


def _none_or_tensor(t: torch.Tensor | None) -> str:
    return "None" if t is None else f"a tensor of shape {list(t.shape)}"


def named_tensors(value: Any, name: str = "input") -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among arguments, those in lists, tuples and dicts too: ("input 0", x), ("input 1[2]", w)."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from named_tensors(item, f"{name}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from named_tensors(item, f"{name} {place}" if name in ("input", "output") else f"{name}[{place}]")


def other_values(inputs: Inputs) -> Inputs:
    """The same arguments in another order of their rows: as valid as they were. A single value is made smaller."""
    return tuple(_changed(value, _other) for value in inputs)


def other_numbers(inputs: Inputs) -> Inputs:
    """The same tensors; a Python number with a fraction is made smaller."""
    return tuple(0.75 * value if type(value) is float else value for value in inputs)


def fewer_rows(inputs: Inputs) -> Inputs:
    """All tensors that are as long as the first one, without their last row."""
    lengths = [t.shape[0] for _, t in named_tensors(inputs) if t.dim()]
    if not lengths or lengths[0] < 2:
        return inputs
    return tuple(_changed(value, lambda t: t[:-1] if t.dim() and len(t) == lengths[0] else t) for value in inputs)


def _changed(value: Any, change: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value.detach()).clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_changed(item, change) for item in value)
    return value


def _other(t: torch.Tensor) -> torch.Tensor:
    rolled = t.roll(1, 0) if t.dim() else t
    if torch.equal(rolled, t) and t.numel():
        rolled = t.reshape(-1).roll(1).reshape(t.shape)
    if torch.equal(rolled, t) and (t.is_floating_point() or t.is_complex()):
        return 0.75 * t
    return rolled


def accepted(subject: Subject, change: Change) -> Result | None:
    """What the call with changed arguments gives alone; None where it is refused, or nothing has changed."""
    inputs = subject.inputs()
    if all(a is b for a, b in zip(inputs, change(inputs), strict=True)):
        return None
    try:
        return working(subject, lambda: change(subject.inputs()))
    except NotImplementedError:
        return None
