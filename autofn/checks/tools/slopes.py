"""How a gradient changes along a direction, by central differences: what a second derivative is held against."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from .pure import Pure, Tensors, dot, normal_like, told

# Step of the central difference, relative to the input. It errs by STEP**2 (1e-10) times a third derivative, and by
# 1e-16 / STEP (1e-11) of rounding.
STEP = 1e-5
# A slope is settled where half the step gives the same; autograd's must equal it as closely. NOISE: a thousand
# roundings.
RTOL, NOISE = 1e-4, 1000 * 1e-16 / STEP
# Moves an input off a corner, such as the 0 of a clamp.
JITTER = 1e-3

Values = Callable[[Tensors], "tuple[torch.Tensor | None, ...]"]


@dataclass(frozen=True)
class Slope:
    """How a weighted sum of a tensor's elements changes along a direction. slack: what rounding explains."""

    value: float
    slack: float
    settled: bool

    def equals(self, found: float, rtol: float) -> bool:
        return abs(found - self.value) <= rtol * max(abs(self.value), abs(found)) + self.slack


@dataclass(frozen=True)
class Point:
    """Where derivatives are taken: leaves, grad_outputs, a direction for each, and weights for each gradient."""

    leaves: Tensors
    weights: Tensors
    directions: Tensors
    vectors: Tensors

    @property
    def variables(self) -> Tensors:
        return (*self.leaves, *self.weights)

    def moved(self, variable: int, step: float) -> Tensors:
        """The variables with one moved along its direction."""
        return tuple(
            t + step * direction if place == variable else t
            for place, (t, direction) in enumerate(zip(self.variables, self.directions, strict=True))
        )


def point_of(function: Pure, jitter: float) -> Point:
    generator = torch.Generator().manual_seed(0)
    leaves = tuple(t + jitter * direction_of(t, generator) for t in function.leaves()) if jitter else function.leaves()
    directions = tuple(direction_of(t, generator) for t in (*leaves, *function.weights))
    return Point(leaves, function.weights, directions, tuple(normal_like(t, generator) for t in leaves))


def direction_of(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Standard normal times the typical size of a tensor; symmetric where the tensor is, as its Function may demand."""
    drawn = normal_like(t, generator)
    if t.dim() >= 2 and t.shape[-1] == t.shape[-2] > 1 and torch.equal(t, t.mT):
        drawn = (drawn + drawn.mT) / 2
    finite = t[t.isfinite()].abs()
    size = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    return drawn * (size or 1.0)


def settled(function: Pure) -> tuple[Point, list[list[Slope]]]:
    """The given inputs, or ones moved off a corner, with the slopes of each gradient (rows) in each variable (columns).

    A slope of neither is as unsettled as it was at the given inputs.
    """
    point = point_of(function, 0.0)
    slopes = slopes_of(function, point)
    if all(slope.settled for row in slopes for slope in row):
        return point, slopes
    other = point_of(function, JITTER)
    moved = slopes_of(function, other)
    settled = [sum(slope.settled for row in rows for slope in row) for rows in (slopes, moved)]
    return (other, moved) if settled[1] > settled[0] else (point, slopes)


def slopes_of(function: Pure, point: Point) -> list[list[Slope]]:
    count = len(point.leaves)

    def gradients(variables: Tensors) -> tuple[torch.Tensor | None, ...]:
        leaves = tuple(t.detach().clone().requires_grad_() for t in variables[:count])
        return function.gradients(leaves, variables[count:])

    return differences(gradients, point, len(point.variables))


def differences(values: Values, point: Point, variables: int) -> list[list[Slope]]:
    """The slope of each value (rows) in each of the first variables (columns)."""
    try:
        here = values(point.variables)
        columns = [_column(values, point, variable, here) for variable in range(variables)]
    except Exception as error:  # the neighbours of an input may be refused
        raise NotImplementedError(f"inputs moved by a hair are refused: {told(error)}") from error
    return [list(row) for row in zip(*columns, strict=True)]


def _column(values: Values, point: Point, variable: int, here: tuple[torch.Tensor | None, ...]) -> list[Slope]:
    whole, half = (
        [
            _projected(after, before, vector) / (2 * step)
            for after, before, vector in zip(
                values(point.moved(variable, step)), values(point.moved(variable, -step)), point.vectors, strict=True
            )
        ]
        for step in (STEP, STEP / 2)
    )
    sizes = [0.0 if t is None else float((t * v).abs().sum()) for t, v in zip(here, point.vectors, strict=True)]
    return [_slope(a, b, NOISE * size) for a, b, size in zip(whole, half, sizes, strict=True)]


def _projected(after: torch.Tensor | None, before: torch.Tensor | None, vector: torch.Tensor) -> float:
    """The weighted sum of a difference; a gradient that is None is zero."""
    if after is None and before is None:
        return 0.0
    zero = torch.zeros_like(vector)
    return dot(vector, (zero if after is None else after) - (zero if before is None else before))


def _slope(whole: float, half: float, slack: float) -> Slope:
    settled = math.isfinite(whole) and math.isfinite(half) and math.isfinite(slack)
    slope = Slope(half, slack, settled)
    return replace(slope, settled=settled and slope.equals(whole, RTOL / 2))
