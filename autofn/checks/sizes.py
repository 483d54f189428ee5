"""Other sizes than the given ones: uneven, large, one, none; and arguments whose shapes broadcast."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools.agreement import examine, need_judged, need_right_as_given
from .tools.point import Judging, fresh, right_outputs, steady
from .tools.variations import floats, is_float, out_of_range, replaced, resized, sizes_of, tensors_of

# Beside and between the blocks that kernels work in (32, 64, 128, 256, 1024), and 1; one beyond 16 bits, in rows and
# thus in a grid of blocks too.
UNEVEN = (1, 33, 129, 65_537, 2, 31, 257, 1025)
# Sizes that cost next to nothing, whatever the machine has to do besides.
SMALL = 1025
# Growing to a million: the blocks of one launch, and of a loop over launches.
LARGE = (4_099, 16_411, 262_147, 1_048_583)
# Dimensions that are changed, each to all sizes.
DIMENSIONS = 4
# Draws of the elements at the given size that tell whether the size is to blame, or the elements.
DRAWS = 3


@dataclass(frozen=True)
class Budget:
    """What trying sizes may cost: elements of a tensor, and seconds, of the sizes that are not SMALL, one and all.

    A dimension is left after a size that took longer, and all when the seconds are spent. The first is always tried.
    """

    elements: int
    one_s: float
    all_s: float


QUICKLY, FULLY = Budget(2**19, 0.03, 0.3), Budget(2**21, 0.3, 3.0)


@dataclass(frozen=True)
class Resized:
    """Arguments at other sizes. told: which, for the messages. batch: whether an argument's first dimension changed."""

    told: str
    inputs: Inputs
    batch: bool


def other_sizes(subject: Subject) -> Iterator[Finding]:
    """Right at sizes that are no multiples of a block, at 1, and beyond 16 bits."""
    yield from _at_sizes(subject, UNEVEN, QUICKLY)


def large_sizes(subject: Subject) -> Iterator[Finding]:
    """Right at up to a million elements in one dimension."""
    yield from _at_sizes(subject, LARGE, FULLY)


def _at_sizes(subject: Subject, sizes: tuple[int, ...], budget: Budget) -> Iterator[Finding]:
    _need_plain_calls(subject)
    still, judged, slow = steady(subject), False, set()
    given = need_right_as_given(still)
    spent = 0.0
    changeable = [old for old in sizes_of(given) if old != 1 or _is_a_batch_of_one(given)]
    for new, old in itertools.product(sizes, changeable[:DIMENSIONS]):
        left_out = new > SMALL and (old in slow or spent > budget.all_s)
        other = None if left_out else _resized(still, given, (old, new), budget.elements)
        if other is None:
            continue
        begin = time.perf_counter()
        found = examine(still, other.inputs, Judging(other.told, values=True, close=True, fix=UNEVEN_FIX))
        judged |= found is not None
        if found:
            _blame_the_size(still, given, old)
            yield from (each for each in found if isinstance(each, Finding))
            return
        took = time.perf_counter() - begin
        spent += took if new > SMALL else 0
        if took > budget.one_s:
            slow.add(old)
    need_judged(judged, "no other size is accepted")


UNEVEN_FIX = "mask the last, incomplete block; compute offsets in int64"


def _is_a_batch_of_one(given: Inputs) -> bool:
    """Whether size 1 is only that of first dimensions: elsewhere, as in a column, it is part of what is meant."""
    return not any(1 in t.shape[1:] for t in tensors_of(given))


def _blame_the_size(subject: Subject, given: Inputs, old: int) -> None:
    """Raises NotImplementedError where elements drawn anew are too much for the Function at the given size too."""
    for seed in range(DRAWS):
        if examine(subject, resized(given, {old: old}, seed=seed), Judging(values=True, close=True)):
            raise NotImplementedError("it is wrong for other elements of the given size too, so the size says nothing")


def zero_size(subject: Subject) -> Iterator[Finding]:
    """A dimension of size 0 where the forward accepts it: an empty batch has gradients too, of its shape."""
    _need_plain_calls(subject)
    still, judged = steady(subject), False
    given = need_right_as_given(still)
    for old in sizes_of(given):
        other = _resized(still, given, (old, 0), QUICKLY.elements)
        if other is None:
            continue
        # Empty features are nobody's batch: an error in the backward is as good as one in the forward, and only a
        # reference tells what their gradients are.
        if not other.batch and still.reference is None:
            continue
        fix = "return a gradient of the input's shape for 0 elements; reshape(n, -1) cannot tell it"
        judging = Judging(other.told, values=True, crashes=other.batch, fix=fix)
        found = examine(still, other.inputs, judging)
        judged |= found is not None
        yield from (each for each in found or () if isinstance(each, Finding))
    need_judged(judged, "no dimension may have size 0")


def zero_dim(subject: Subject) -> Iterator[Finding]:
    """Scalars (0-dim tensors) where a Function works on every element by itself, or sums all of them."""
    _need_plain_calls(subject)
    still = steady(subject)
    given = need_right_as_given(still)
    tensors = tensors_of(given)
    if not tensors or len({t.shape for t in tensors}) > 1 or not tensors[0].numel():
        raise NotImplementedError("the arguments have different shapes: they cannot all be scalars")
    if not _elementwise(still, given):
        raise NotImplementedError("it does not work on every element by itself")
    scalars = tuple(
        t.detach().reshape(-1)[0].clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t
        for t in given
    )
    fix = "let backward work for any number of dimensions"
    found = examine(still, scalars, Judging("0-dim tensors", values=True, close=True, fix=fix))
    need_judged(found is not None, "0-dim tensors are refused")
    yield from (each for each in found or () if isinstance(each, Finding))


def broadcasting(subject: Subject) -> Iterator[Finding]:
    """Arguments of size 1 where others are larger: refused, or summed over in their gradient.

    Only where the arguments broadcast to the outputs' shape. A reduction that takes such shapes by chance is not meant.
    """
    _need_plain_calls(subject)
    still, judged = steady(subject), False
    given = need_right_as_given(still)
    shape = _shapes(still.call(fresh(given)))
    if not _broadcast_to(given, shape):
        raise NotImplementedError("the outputs have not the shape to which the arguments broadcast")
    for told, inputs, expanded in _narrowed(given):
        if not _broadcasts(still, inputs, shape) or examine(still, expanded, Judging(close=True)):
            continue
        fix = "refuse such shapes in forward, or sum the gradient over the dimensions that were broadcast"
        found = examine(still, inputs, Judging(told, values=True, crashes=False, fix=fix))
        judged |= found is not None
        yield from (each for each in found or () if isinstance(each, Finding))
    need_judged(judged, "no argument broadcasts")


def _resized(subject: Subject, given: Inputs, change: tuple[int, int], most: int) -> Resized | None:
    """The arguments with one size changed everywhere; None where the reference, or the forward, refuses them."""
    old, new = change
    if new == old or _largest(given, old, new) > most:
        return None
    batch = any(t.dim() and t.shape[0] == old for t in tensors_of(given))
    for numbers in (False, True):
        inputs = resized(given, {old: new}, numbers=numbers)
        if not out_of_range(inputs, old, new) and _accepted(subject, inputs):
            return Resized(f"size {new} instead of {old}", inputs, batch)
    return None


def _largest(given: Inputs, old: int, new: int) -> int:
    return max(torch.Size(new if size == old else size for size in t.shape).numel() for t in tensors_of(given))


def _accepted(subject: Subject, inputs: Inputs) -> bool:
    if subject.reference is not None:
        return right_outputs(subject, inputs) is not None
    try:
        subject.call(fresh(inputs))
    except Exception:  # it refuses such inputs, each Function by an error of its own
        return False
    return True


def _narrowed(given: Inputs) -> Iterator[tuple[str, Inputs, Inputs]]:
    """Each floating argument cut to size 1 in one dimension; and with the same elements repeated to its own size."""
    if len(floats(given)) < 2:
        return
    for place in floats(given):
        t = given[place]
        for dim, size in enumerate(t.shape):
            if size > 1:
                short = t.narrow(dim, 0, 1)
                told = f"input {place} of size 1 in dimension {dim}"
                long = short.expand(t.shape).contiguous()
                yield told, replaced(given, {place: short}), replaced(given, {place: long})


def _broadcast_to(given: Inputs, shape: list[torch.Size]) -> bool:
    try:
        wide = torch.broadcast_shapes(*(given[place].shape for place in floats(given)))
    except RuntimeError:
        return False
    return all(each == wide for each in shape)


def _broadcasts(subject: Subject, inputs: Inputs, shape: list[torch.Size]) -> bool:
    """Whether the outputs keep their shape: then the argument was broadcast, not just smaller."""
    right = right_outputs(subject, inputs)
    if right is not None:
        return _shapes(right) == shape
    try:
        return subject.reference is None and _shapes(subject.call(fresh(inputs))) == shape
    except Exception:  # it refuses such inputs, each Function by an error of its own
        return False


def _elementwise(subject: Subject, given: Inputs) -> bool:
    """Whether the elements may be shuffled: the outputs are shuffled alike, or, being sums, do not change."""
    count = tensors_of(given)[0].numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(7))

    def shuffled(t: torch.Tensor) -> torch.Tensor:
        return t.detach().reshape(-1)[order.to(t.device)].reshape(t.shape)

    moved = replaced(given, {place: shuffled(t) for place, t in enumerate(given) if isinstance(t, torch.Tensor)})
    try:
        plain, other = subject.call(fresh(given)), subject.call(fresh(moved))
    except Exception:  # it refuses such inputs, each Function by an error of its own
        return False
    return all(
        a.shape == b.shape and torch.allclose(shuffled(a) if a.numel() == count and a.dim() else a, b, equal_nan=True)
        for a, b in zip(plain, other, strict=True)
        if is_float(a)
    )


def _shapes(outputs: tuple[torch.Tensor, ...]) -> list[torch.Size]:
    return [out.shape for out in outputs]


def _need_plain_calls(subject: Subject) -> None:
    if subject.compiled:
        raise NotImplementedError("a compiled graph is one of its sizes: each other one is compiled anew")


RULES = (
    Rule("other-sizes", "error", "right at sizes that fill no block, at 1, and beyond 16 bits", other_sizes),
    Rule("large-sizes", "error", "right at a million elements in one dimension", large_sizes, level="full"),
    Rule("broadcasting", "error", "shapes that broadcast are refused, or summed over in the gradient", broadcasting),
    Rule("zero-size", "error", "an empty batch has an empty gradient where the forward accepts one", zero_size),
    Rule("zero-dim", "error", "an elementwise Function that accepts 0-dim tensors has their gradient", zero_dim),
)
