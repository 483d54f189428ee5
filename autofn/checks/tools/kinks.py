"""The forward's own slopes at a point, from differences: what a gradient is held against where nobody gives a formula.

Let L(x) be the weighted sum of the outputs. At a smooth point the slope of L along a direction is one number. At a kink
(relu at 0, two equal maxima) the slopes ahead and behind differ, and every gradient between them is a right one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..subject import Inputs

Direction = Mapping[int, torch.Tensor]
"""By position of the argument: how far each of its elements moves."""
Forward = Callable[[Inputs], tuple[torch.Tensor, ...]]

# The central difference errs by step**2 times a third derivative, and by 1e-16 / step of rounding: least near 1e-5.
# The long ones are for a forward that computes in float32 inside, where shorter steps see its rounding alone.
STEPS = (1e-6, 1e-4, 1e-2)
# A kink is there at any step: the shortest that rounding (1e-16 / step) still lets see one.
SHORT = 1e-7
# Two slopes that agree to this part of them differ by arithmetic, not by a kink.
NO_KINK = 1e-5
# Of the summed absolute slopes: what the difference of a smooth forward may err by.
SLACK = 1e-6
# Roundings of an output of its size that are taken for granted where a third difference shows none.
ROUNDINGS = 16 * 2.0**-52


@dataclass(frozen=True)
class Interval:
    """All slopes that the forward allows; infinite where it cannot be followed, for instance beyond its domain.

    slack: how far rounding widens it, on either side.
    """

    lower: float
    upper: float
    slack: float = 0.0

    def holds(self, slope: float) -> bool:
        return self.lower <= slope <= self.upper

    def settled(self, longer: Interval) -> bool:
        """Whether a longer step tells the same, and is no sharper for being longer."""
        meets = self.lower <= longer.upper and longer.lower <= self.upper
        return meets and self.upper - self.lower - 2 * self.slack <= 3 * (longer.upper - longer.lower)

    def __str__(self) -> str:
        middle, reach = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        return f"{middle:.6g}" if reach <= 1e-3 * max(abs(middle), 1e-3) else f"{self.lower:.6g} to {self.upper:.6g}"


ANY = Interval(-torch.inf, torch.inf)


class Slopes:
    """The slopes of the weighted outputs of `forward` around `inputs`; a weight of None or 0 leaves an output out."""

    def __init__(self, forward: Forward, inputs: Inputs, weights: Sequence[torch.Tensor | None]) -> None:
        self.forward, self.inputs = forward, inputs
        self.chosen = [place for place, weight in enumerate(weights) if weight is not None]
        self.weights = _row([weight for weight in weights if weight is not None])
        self.here = self._outputs(inputs)

    def explains(self, direction: Direction, slope: float) -> bool:
        """Whether a slope is right by some step, or none can tell.

        A step tells where a longer one agrees. Where the slope grows as the step shrinks, it sees a jump or a pole, or
        the rounding of a forward in float32: then the next longer ones are asked.
        """
        for moving, share in self._scaled(direction):
            found = [self.interval(moving, step) for step in STEPS]
            if any(each.holds(slope * share) for each in found):
                return True
            if not any(short.settled(longer) for short, longer in itertools.pairwise(found)):
                return True
        return False

    def kink(self, direction: Direction, slope: float, other: float) -> bool:
        """Whether two slopes differ since the forward has a kink here, where the first is right. A curve is none."""
        gap = abs(slope - other)
        if gap <= NO_KINK * max(abs(slope), abs(other)):
            return False
        for moving, share in self._scaled(direction):
            found = self.interval(moving, SHORT)
            if found.holds(slope * share) and found.upper - found.lower >= gap * share / 2:
                return True
        return False

    def interval(self, direction: Direction, step: float) -> Interval:
        """The slopes that the outputs have ahead and behind, each output by itself, widened by what rounding hides."""
        ahead, behind = (self._side(direction, sign * step) for sign in (1, -1))
        if self.here is None or ahead is None or behind is None:
            return ANY
        slopes = torch.cat([ahead[0], behind[0]]) * self.weights
        rounding = ROUNDINGS * self.here.abs() / step
        seen = float((torch.maximum(ahead[1], behind[1]) * self.weights.abs()).sum())
        slack = seen + float((rounding * self.weights).norm()) + SLACK * float(slopes.abs().amax(0).sum())
        return Interval(float(slopes.amin(0).sum()) - slack, float(slopes.amax(0).sum()) + slack, slack)

    def near(self, direction: Direction, slope: float) -> bool:
        """Whether a slope is that of a central difference, which two calls tell; `explains` takes many."""
        step = STEPS[0]
        ahead, behind = (self._outputs(self._moved(direction, sign * step)) for sign in (1, -1))
        if self.here is None or ahead is None or behind is None:
            return False
        terms = (ahead - behind) * self.weights / (2 * step)
        rounding = ROUNDINGS * float((self.here * self.weights).norm()) / step
        return abs(float(terms.sum()) - slope) <= SLACK * float(terms.abs().sum()) + rounding

    def _side(self, direction: Direction, step: float) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The slopes (3, outputs) to a half, a whole and (by these two) no step; the noise: a third difference."""
        points = [self._outputs(self._moved(direction, step * quarter / 4)) for quarter in (1, 2, 3, 4)]
        known = [point for point in points if point is not None]
        if self.here is None or len(known) < 4:
            return None
        first, half, third, whole = known
        near, far = (half - self.here) * 2 / step, (whole - self.here) / step
        return torch.stack([near, far, 2 * near - far]), (whole - 3 * third + 3 * half - first).abs() / abs(step)

    def _scaled(self, direction: Direction) -> list[tuple[Direction, float]]:
        """The direction as it is, and as long as the elements that it moves are large, with the factor of its slope."""
        moving = [self.inputs[place].detach()[towards != 0].abs() for place, towards in direction.items()]
        size = max((float(each.max()) for each in moving if each.numel()), default=0.0)
        if size in (0.0, 1.0, torch.inf):
            return [(direction, 1.0)]
        return [(direction, 1.0), ({place: towards * size for place, towards in direction.items()}, size)]

    def _moved(self, direction: Direction, step: float) -> Inputs | None:
        """The inputs a step along the direction; None where the step is lost in the rounding of an element."""
        moved = list(self.inputs)
        for place, towards in direction.items():
            t = self.inputs[place].detach()
            moved[place] = (t + step * towards).requires_grad_(self.inputs[place].requires_grad)
            if bool((moved[place].detach() == t).logical_and(towards != 0).any()):
                return None
        return tuple(moved)

    def _outputs(self, inputs: Inputs | None) -> torch.Tensor | None:
        """The chosen outputs as one row of float64, or None where the forward refuses or is not finite."""
        if inputs is None:
            return None
        try:
            outputs = self.forward(inputs)
        except Exception:  # beyond its domain a Function may raise anything
            return None
        row = _row([outputs[place] for place in self.chosen])
        if row.shape != self.weights.shape:
            return None
        row = torch.where(self.weights == 0, 0.0, row)
        return row if bool(row.isfinite().all()) else None


def slope(grad: torch.Tensor, direction: torch.Tensor) -> float:
    """What a gradient claims the slope along a direction to be. Only the elements that move count, NaN or not."""
    moving = direction.ne(0)
    return float((_row([grad[moving]]) * _row([direction[moving]])).sum())


def one(t: torch.Tensor, index: int) -> torch.Tensor:
    """The direction in which one element alone moves, by 1."""
    found = torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    found.reshape(-1)[index] = 1
    return found


def _row(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One row of float64; a complex number is two."""
    rows = [
        (torch.view_as_real(t.detach().resolve_conj()) if t.dtype.is_complex else t.detach())
        .to("cpu", torch.float64)
        .reshape(-1)
        for t in tensors
    ]
    return torch.cat(rows) if rows else torch.zeros(0, dtype=torch.float64)
