"""Values at which formulas divide 0 by 0, subtract infinities, overflow inside, or have a kink."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools.agreement import examine, need_judged, need_right_as_given
from .tools.point import Judging, fresh, steady
from .tools.variations import floats, mapped, replaced

Change = Callable[[torch.Tensor], torch.Tensor]

# Where clips, roundings and their like have their corners.
CORNERS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0)
# Beyond the exponential's range in float32 and in float64. HUGE has a square in float64, and its square one.
STEEP, HUGE, TINY, DENORMAL = (100.0, 1000.0), 1e30, 1e-30, 1e-310
# The most findings that are told: the first few say it all. Elements tried by differences, without a reference.
TOLD, ELEMENTS = 3, 1


MASK, REFERENCE = "mask", "reference"


@dataclass(frozen=True)
class Special:
    """How one tensor is changed.

    only_nan: whether NaN alone is judged: other gradients there mean nothing. needs: a REFERENCE, which tells what
    infinities and huge values mean, or that they may at least be a MASK.
    """

    told: str
    change: Change
    only_nan: bool = False
    needs: str = ""


def special_values(subject: Subject) -> Iterator[Finding]:
    """Gradients at special values, judged where the reference (or, without one, the output) is finite."""
    still, judged, told = steady(subject), False, 0
    given = need_right_as_given(still)
    able = _able(still, given)
    for special, inputs in _cases(given):
        if special.needs not in able:
            continue
        found = examine(
            still, inputs, Judging(special.told, crashes=False, only_nan=special.only_nan, elements=ELEMENTS)
        )
        judged |= found is not None
        for each in found or ():
            if isinstance(each, Finding):
                yield each
                told += 1
        if told >= TOLD:
            return
    need_judged(judged, "no special value has a finite result")


def _able(subject: Subject, given: Inputs) -> tuple[str, ...]:
    """What there is. Infinities may be a mask of one input with outputs of its shape; else inf - inf is rightly NaN."""
    if subject.reference is not None:
        return "", MASK, REFERENCE
    shapes = {out.shape for out in subject.call(fresh(given))}
    return ("", MASK) if len(floats(given)) == 1 and shapes == {given[floats(given)[0]].shape} else ("",)


def _cases(given: Inputs) -> Iterator[tuple[Special, Inputs]]:
    """Every float argument with every special value, then pairs of equal arguments, then all arguments 0."""
    corners = (*CORNERS, *(sign * t for t in given if isinstance(t, (int, float)) for sign in (1, -1)))
    for place in floats(given):
        for special in (*SPECIALS, _corners(corners)):
            try:
                inputs = mapped(given, place, _keeping_symmetry(given[place], special.change))
            except RuntimeError:  # such as a -inf in a complex tensor
                continue
            # What an argument that is not differentiated may hold is for `other-values` to try.
            only_nan = special.only_nan or not given[place].requires_grad
            yield replace(special, told=f"{special.told} in input {place}", only_nan=only_nan), inputs
    for first, second in itertools.combinations(floats(given), 2):
        if given[second].requires_grad and given[first].shape == given[second].shape:
            equal = Special(f"input {second} equal to input {first}", _zeros)
            yield equal, replaced(given, {second: given[first]})
    tracked = [place for place in floats(given) if given[place].requires_grad]
    if len(tracked) > 1:
        yield (
            Special("zeros in all inputs", _zeros, needs=REFERENCE),
            replaced(given, {place: _zeros(given[place]) for place in tracked}),
        )


def _keeping_symmetry(given: torch.Tensor, change: Change) -> Change:
    """A matrix that is symmetric as given stays so: its upper half is changed and mirrored."""
    if given.dim() < 2 or given.shape[-1] < 2 or given.shape[-1] != given.shape[-2] or not given.equal(given.mT):
        return change

    def mirrored(t: torch.Tensor) -> torch.Tensor:
        upper = change(t).triu()
        return upper + upper.triu(1).mT

    return mirrored


def _zeros(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(t)


def _first(value: float, every: int | None = None) -> Change:
    """Sets the first element, or each `every`-th one."""

    def change(t: torch.Tensor) -> torch.Tensor:
        t = t.contiguous()
        t.view(-1)[:: every or t.numel()] = value
        return t

    return change


def _first_row(value: float) -> Change:
    """Sets the first of the rows along the last dimension."""

    def change(t: torch.Tensor) -> torch.Tensor:
        t = t.contiguous()
        t.view(-1, t.shape[-1] if t.dim() else 1)[0] = value
        return t

    return change


def _first_column(value: float) -> Change:
    """Sets what has index 0 in the last dimension: the first element of every row."""

    def change(t: torch.Tensor) -> torch.Tensor:
        if t.dim():
            t[..., :1] = value
        return t

    return change


def _row_of_equals(t: torch.Tensor) -> torch.Tensor:
    t = t.contiguous()
    rows = t.view(-1, t.shape[-1] if t.dim() else 1)
    rows[0] = rows[0, 0].clone()
    return t


def _two_largest(t: torch.Tensor) -> torch.Tensor:
    """The first two elements of every row both become the row's largest."""
    if t.dim() and not t.dtype.is_complex:
        t[..., :2] = t.amax(-1, keepdim=True)
    return t


def _pairs(t: torch.Tensor) -> torch.Tensor:
    """Each second element along the last dimension equals its neighbour."""
    if t.dim() and t.shape[-1] > 1:
        t[..., 1::2] = t[..., ::2][..., : t.shape[-1] // 2].clone()
    return t


def _scaled(factor: float) -> Change:
    return lambda t: t * factor


def _signs(factor: float) -> Change:
    return lambda t: torch.where(t.real < 0, -factor, factor).to(t.dtype)


def _corners(values: tuple[float, ...]) -> Special:
    """Elements that are exactly the values, in turn."""

    def change(t: torch.Tensor) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64).repeat(t.numel() // len(values) + 1)[: t.numel()].view(t.shape)

    return Special("exact corner values such as 0, 1, -1, 0.5", change)


INF = float("inf")
SPECIALS = (
    Special("zeros", _zeros),
    Special("a 0", _first(0.0)),
    Special("a -0.0", _first(-0.0)),
    Special("a row of zeros", _first_row(0.0)),
    Special("a column of zeros", _first_column(0.0)),
    Special("ones", torch.ones_like),
    Special("minus ones", lambda t: -torch.ones_like(t)),
    Special("two equal largest elements a row", _two_largest),
    Special("pairs of equal elements", _pairs),
    Special("a row of equal elements", _row_of_equals),
    Special("the opposite signs", lambda t: -t),
    *(Special(f"values of {steep:.0f} and -{steep:.0f}", _signs(steep)) for steep in STEEP),
    Special(f"values {STEEP[1]:.0f} times as large", _scaled(STEEP[1])),
    Special(f"one value of {STEEP[1]:.0f}", _first(STEEP[1])),
    Special(f"one value of -{STEEP[1]:.0f}", _first(-STEEP[1])),
    Special(f"values around {HUGE:.0e}", _scaled(HUGE), needs=REFERENCE),
    Special(f"one value of {HUGE:.0e}", _first(HUGE), needs=REFERENCE),
    Special(f"values around {TINY:.0e}", _scaled(TINY), needs=REFERENCE),
    Special("denormal values", _scaled(DENORMAL), only_nan=True),
    Special("a -inf", _first(-INF), needs=MASK),
    Special("a -inf in every other element", _first(-INF, every=2), needs=MASK),
    Special("a column of -inf", _first_column(-INF), needs=MASK),
    Special("a row of -inf", _first_row(-INF), needs=MASK),
    Special("nothing but -inf", lambda t: torch.full_like(t, -INF), needs=MASK),
    Special("an inf", _first(INF), needs=REFERENCE),
)

RULES = (Rule("special-values", "error", "finite and right at zeros, ties, infinities and corners", special_values),)
