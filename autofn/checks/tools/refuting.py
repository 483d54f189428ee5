"""Gradients against the forward itself, where there is no reference: NaN, and slopes that differences refute."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..rule import Finding
from ..subject import leaves, positions
from .kinks import Slopes, slope
from .point import Grads, Judging, Point, all_finite, at, slopes_of

# Of large tensors, whose forward takes its time, no more than a few elements are tried one by one.
LARGE, ELEMENTS_OF_LARGE = 10_000, 3
# Of the sum of a slope's absolute terms: less is rounding, some thousand times over.
CANCELLED = 1e-12


def against_the_forward(point: Point, got: Grads, judging: Judging) -> Iterator[Finding]:
    """Without a reference: NaN beside finite outputs, and slopes that the forward refutes by every step."""
    if not all_finite(point):
        return
    places = positions(point.inputs)
    for place, mine in zip(places, got, strict=True):
        if mine is not None and bool(mine.isnan().any()):
            yield lost(mine, torch.zeros_like(mine), mine.isnan(), f"gradient of input {place}", judging)
            return
    if judging.only_nan or not point.derivable or point.outputs[0].dtype not in (torch.float64, torch.complex128):
        return
    slopes = slopes_of(point)
    for place, mine in zip(places, got, strict=True):
        for direction, described in directions(point.inputs[place], _most(point, judging)):
            claimed = 0.0 if mine is None else _claimed(mine, direction)
            if not abs(claimed) < torch.inf or slopes.near({place: direction}, claimed):
                continue
            if not slopes.explains({place: direction}, claimed):
                yield _refuted(slopes, {place: direction}, claimed, described, judging)
                break


def _refuted(
    slopes: Slopes, direction: dict[int, torch.Tensor], claimed: float, described: str, judging: Judging
) -> Finding:
    (place,) = direction
    true = slopes.interval(direction, 1e-6)
    middle = (true.lower + true.upper) / 2
    return Finding(
        f"is not the slope of the forward{at(judging)}, {described}",
        f"gradient of input {place}", f"{claimed:.6g}", str(true), abs(claimed - middle), judging.fix,
    )  # fmt: skip


def directions(t: torch.Tensor, most: int) -> Iterator[tuple[torch.Tensor, str]]:
    """Directions to try: one element each, the first, the last, others, `most` at most; then all elements at once.

    Equal elements move together: the median of three equal numbers moves with none of them alone.
    """
    values, groups, counts = _unique(t.detach())
    finite = t.detach().isfinite()
    if not bool(finite.any()):
        return
    generator = torch.Generator().manual_seed(3)
    ends = dict.fromkeys((0, t.numel() - 1))
    others = 1 + torch.randperm(max(t.numel() - 2, 0), generator=generator)
    chosen = [*ends, *others.tolist()][:most]
    for group in dict.fromkeys(int(groups.reshape(-1)[index]) for index in chosen):
        if bool(values[group].isfinite()):
            where = (groups == group).nonzero()[0].tolist()
            more = f" and {int(counts[group]) - 1} more elements equal to it" if counts[group] > 1 else ""
            yield (groups == group).to(t.dtype), f"at {where}{more}"
    if values.numel() > 1:
        everywhere = torch.randn(values.shape, generator=generator, dtype=torch.float64).to(t)[groups]
        yield torch.where(finite, everywhere, 0), "along a random direction"


def lost(mine: torch.Tensor, right: torch.Tensor, gone: torch.Tensor, where: str, judging: Judging) -> Finding:
    """The finding of a gradient that is not finite where `gone` says so, beside one that is."""
    index = int(gone.reshape(-1).int().argmax())
    first = [int(each) for each in torch.unravel_index(torch.tensor(index), gone.shape)]
    bad, good = (each.detach().reshape(-1)[index].item() for each in (mine, right))
    known = f"{good:.6g}" if judging.told == "" or right.any() or not gone.all() else "a finite number"
    return Finding(
        f"is not finite{at(judging)}, although the output is; {int(gone.sum())} of {gone.numel()} elements, "
        f"the first at {first}",
        where, f"{bad}", known, torch.finfo(torch.float64).max,
        judging.fix or "guard the division or the difference that gives 0/0 or inf - inf there",
    )  # fmt: skip


def _unique(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The values of a tensor, where each element stands among them, and how many there are of each."""
    if t.dtype.is_complex:  # torch does not sort them
        return t.reshape(-1), torch.arange(t.numel(), device=t.device).reshape(t.shape), torch.ones(t.numel())
    return t.unique(return_inverse=True, return_counts=True)


def _claimed(grad: torch.Tensor, direction: torch.Tensor) -> float:
    """The slope that a gradient claims; 0 where its terms cancel but for their rounding."""
    found = slope(grad, direction)
    return 0.0 if abs(found) <= CANCELLED * slope(grad.abs(), direction.abs()) else found


def _most(point: Point, judging: Judging) -> int:
    sizes = [t.numel() for t in (*leaves(point.inputs), *point.outputs)]
    return judging.elements if sum(sizes) <= LARGE else ELEMENTS_OF_LARGE
