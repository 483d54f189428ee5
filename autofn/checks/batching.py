"""torch.vmap against a loop: for every choice of batched arguments, with gradients, and inside itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from .rule import ERROR, INFO, Finding, Rule, Seen
from .subject import Inputs, Subject
from .tools.comparing import allowed, difference
from .tools.pure import Pure, Tensors, classes, deliberate, overrides, seeded, told, transformable

# Every choice of batched arguments up to three tensors (7 choices); beyond, all, each alone, and all but each.
MOST_TENSORS = 3
# Every slice of the batch another multiple of the given input, where another seed gives the same one.
SHRINK = 0.1
# A gradient computed in another order: some hundred roundings, ten times what `comparing` allows.
MARGIN = 10

Dims = tuple["int | None", ...]


@dataclass(frozen=True)
class Batched:
    """The Function of its tensor arguments, and a batch of them.

    places: of the tensors among the arguments. stacks: a batch of each, along dimension 0. function: for the outputs
    that have a gradient, and their weights.
    """

    function: Pure
    places: tuple[int, ...]
    stacks: Tensors

    @property
    def count(self) -> int:
        return self.stacks[0].shape[0]

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        """The tensors among the outputs."""
        return tuple(out for out in self._outputs(tensors) if isinstance(out, torch.Tensor))

    def differentiable(self, tensors: Tensors) -> Tensors:
        """The outputs that have a gradient."""
        outputs = self._outputs(tensors)
        return tuple(outputs[place] for place in self.function.kept)

    def _outputs(self, tensors: Tensors) -> Tensors:
        arguments: list[Any] = list(self.function.inputs)
        for place, t in zip(self.places, tensors, strict=True):
            arguments[place] = t
        return self.function.subject.call(tuple(arguments))

    def arguments(self, dims: Dims) -> Tensors:
        """Fresh leaves: the batch along each dimension, the first of it where the dimension is None."""
        return tuple(
            (stack[0] if dim is None else stack.movedim(0, dim)).detach().clone().requires_grad_(wanted)
            for stack, dim, wanted in zip(self.stacks, dims, self.tracked, strict=True)
        )

    @property
    def tracked(self) -> tuple[bool, ...]:
        return tuple(place in self.function.places for place in self.places)

    def loop(self, arguments: Tensors, dims: Dims) -> Tensors:
        """The outputs of a loop over the batch, stacked."""
        return _stacked([self(*self.sample(arguments, dims, at)) for at in range(self.count)])

    def sample(self, arguments: Tensors, dims: Dims, at: int) -> Tensors:
        """One element of the batch."""
        return tuple(t if dim is None else t.select(dim, at) for t, dim in zip(arguments, dims, strict=True))


def vmap(subject: Subject) -> Iterator[Finding | Seen]:
    """Outputs and gradients under torch.vmap equal those of a loop."""
    if subject.intent.random:
        raise NotImplementedError("the Function is random: vmap and a loop draw differently")
    batched = _batched(transformable(subject))
    with _no_word_of_fallbacks():
        for way in _ways(batched):
            found = list(way)
            yield from found
            if any(isinstance(each, Finding) for each in found):
                return


def _ways(batched: Batched) -> Iterator[Iterator[Finding | Seen]]:
    """What is compared, each only where those before it found nothing."""
    for dims in _choices(len(batched.stacks)):
        yield _one_choice(batched, dims)
    yield _nested(batched)
    for dims in ((0,) * len(batched.stacks), *_alone(batched)):
        yield _per_sample(batched, dims)


@contextmanager
def _no_word_of_fallbacks() -> Iterator[None]:
    """Within it stderr is closed: C++ warns there, past Python's filters, of each operator that it runs in a loop."""
    sys.stderr.flush()
    before = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(nowhere)


# The batch


def _batched(function: Pure) -> Batched:
    places = tuple(place for place, t in enumerate(function.inputs) if isinstance(t, torch.Tensor))
    sizes = {size for place in places for size in function.inputs[place].shape}
    count = next(size for size in range(3, 100) if size not in sizes)
    samples = _samples(function, places, count)
    stacks = tuple(torch.stack([sample[place].detach() for sample in samples]) for place in places)
    return Batched(function, places, stacks)


def _samples(function: Pure, places: tuple[int, ...], count: int) -> list[Inputs]:
    """Arguments of one shape each: of other seeds, or shrunk copies of the given ones."""
    given = function.inputs
    others = [function.subject.inputs(given[function.places[0]].dtype, seed) for seed in range(1, count)]
    if all(_alike(given, other, places) for other in others) and not _same(given, others[0], places):
        return [given, *others]
    return [given] + [
        tuple(
            t.detach() * (1 - SHRINK * at) if place in function.places else t for place, t in enumerate(given)
        )
        for at in range(1, count)
    ]  # fmt: skip


def _alike(given: Inputs, other: Inputs, places: tuple[int, ...]) -> bool:
    return len(given) == len(other) and all(
        isinstance(other[place], torch.Tensor)
        and other[place].shape == given[place].shape
        and other[place].dtype == given[place].dtype
        for place in places
    )


def _same(given: Inputs, other: Inputs, places: tuple[int, ...]) -> bool:
    return all(torch.equal(given[place], other[place]) for place in places)


def _choices(tensors: int) -> list[Dims]:
    """Which arguments are batched, along which dimension: the first, the last, and both in turn."""
    if tensors <= MOST_TENSORS:
        chosen = [tuple(each) for each in product((0, None), repeat=tensors) if any(dim == 0 for dim in each)]
    else:
        one = [tuple(0 if at == place else None for at in range(tensors)) for place in range(tensors)]
        but = [tuple(None if at == place else 0 for at in range(tensors)) for place in range(tensors)]
        chosen = [(0,) * tensors, *one, *but]
    in_turn = [tuple((0, -1)[(at + first) % 2] for at in range(tensors)) for first in (0, 1)] if tensors > 1 else []
    return [*chosen, (-1,) * tensors, *in_turn]


# vmap beside the loop


def _one_choice(batched: Batched, dims: Dims) -> Iterator[Finding | Seen]:
    arguments = batched.arguments(dims)
    try:
        with seeded():
            want = batched.loop(arguments, dims)
        right = _gradients(want, arguments)
    except Exception:  # these slices are refused without vmap too
        return
    mine = batched.arguments(dims)
    try:
        with seeded():
            got = torch.vmap(batched, in_dims=dims)(*mine)
    except Exception as error:  # there may be no rule, or a wrong one
        yield _unsupported(batched, error, f"in_dims={dims}")
        return
    compared = list(_compared(batched, "output", got, want, f"vmap with in_dims={dims}"))
    yield from compared
    if any(isinstance(each, Finding) for each in compared):
        return
    try:
        found = _gradients(got, mine)
    except Exception as error:
        yield _unsupported(batched, error, f"in_dims={dims}, in the backward")
        return
    yield from _compared(batched, "gradient", found, right, f"vmap with in_dims={dims}")


def _gradients(outputs: Tensors, arguments: Tensors) -> Tensors:
    """The vjp of all outputs that require grad, for weights that all differ; zeros for None."""
    wanted = [t for t in arguments if t.requires_grad]
    chosen = [out for out in outputs if out.requires_grad]
    if not chosen:
        return tuple(torch.zeros_like(t) for t in wanted)
    weights = [torch.linspace(1, 2, out.numel(), dtype=torch.float64).reshape(out.shape).to(out) for out in chosen]
    grads = torch.autograd.grad(chosen, wanted, weights, allow_unused=True)
    return tuple(torch.zeros_like(t) if grad is None else grad for t, grad in zip(wanted, grads, strict=True))


def _compared(batched: Batched, what: str, got: Tensors, want: Tensors, how: str) -> Iterator[Finding | Seen]:
    fix = (
        "the vmap staticmethod gets in_dims (None where an argument is not batched) and returns (outputs, out_dims); "
        "or set generate_vmap_rule = True instead"
    )
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        where = f"{what} {place}"
        if mine.shape != right.shape:
            message = f"{how} gives another shape than a loop"
            yield Finding(message, where, str(list(mine.shape)), str(list(right.shape)), fix=fix)
            return
        rtol, atol = allowed(batched.function.subject, right.dtype, right)
        found = difference(mine, right, MARGIN * rtol, MARGIN * atol)
        if found is not None:
            yield found.finding(f"{how} differs from a loop", where, fix)
            return
        yield Seen(0.0)


def _unsupported(batched: Batched, error: Exception, how: str) -> Finding:
    """Nothing to say without setup_context, which `func-grad` tells; else a capability, or a vmap rule that fails."""
    if "setup_context" in str(error):
        raise NotImplementedError("setup_context is missing; see func-grad") from error
    if "does not have vmap support" in str(error):
        fix = "set generate_vmap_rule = True, or write a vmap staticmethod"
        return Finding("torch.vmap is not supported: there is no vmap rule", "transforms", fix=fix, severity=INFO)
    ruled = any(overrides(each, "vmap") for each in classes(batched.function.subject))
    if ruled and not deliberate(error):
        fix = "the vmap staticmethod must allow any in_dims: an int or None for each argument"
        return Finding(f"the vmap rule raises for {how}: {told(error)}", "transforms", fix=fix)
    return Finding(f"torch.vmap is not supported for {how}: {told(error)}", "transforms", severity=INFO)


def _nested(batched: Batched) -> Iterator[Finding | Seen]:
    """vmap(vmap): the batch, and twice as large a one behind it."""
    dims: Dims = (0,) * len(batched.stacks)
    arguments = tuple(torch.stack([t, t.flip(0)]) for t in batched.stacks)
    yield from _beside_a_loop(
        batched,
        "vmap(vmap)",
        lambda: torch.vmap(torch.vmap(batched))(*arguments),
        lambda: _stacked([batched.loop(tuple(t[at] for t in arguments), dims) for at in range(2)]),
    )


def _per_sample(batched: Batched, dims: Dims) -> Iterator[Finding | Seen]:
    """vmap(grad): the gradients of each sample of the batch."""
    chosen = tuple(at for at, tracked in enumerate(batched.tracked) if tracked)
    arguments = tuple(t.detach() for t in batched.arguments(dims))

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        outputs = batched.differentiable(tensors)
        pairs = zip(batched.function.weights, outputs, strict=True)
        return torch.stack([(w.conj() * out).real.sum() for w, out in pairs]).sum()

    def plain(*tensors: torch.Tensor) -> Tensors:
        leaves = tuple(t.clone().requires_grad_(at in chosen) for at, t in enumerate(tensors))
        return _gradients((loss(*leaves),), leaves)

    yield from _beside_a_loop(
        batched,
        f"vmap(grad) with in_dims={dims}",
        lambda: torch.vmap(torch.func.grad(loss, argnums=chosen), in_dims=dims)(*arguments),
        lambda: _stacked([plain(*batched.sample(arguments, dims, at)) for at in range(batched.count)]),
    )


def _alone(batched: Batched) -> list[Dims]:
    """Each leaf batched alone, as in per-sample gradients of weights that all samples share."""
    count = len(batched.stacks)
    if count == 1:
        return []
    return [tuple(0 if at == place else None for at in range(count)) for place in range(count)][:MOST_TENSORS]


def _stacked(rows: list[Tensors]) -> Tensors:
    return tuple(torch.stack(column) for column in zip(*rows, strict=True))


def _beside_a_loop(
    batched: Batched, how: str, transformed: Callable[[], Tensors], looped: Callable[[], Tensors]
) -> Iterator[Finding | Seen]:
    try:
        with seeded():
            want = looped()
    except Exception:  # refused without vmap too
        return
    try:
        with seeded():
            got = transformed()
    except Exception as error:
        yield _unsupported(batched, error, how)
        return
    yield from _compared(batched, "result", got, want, how)


RULES = (Rule("vmap", ERROR, "torch.vmap gives what a loop gives", vmap),)
