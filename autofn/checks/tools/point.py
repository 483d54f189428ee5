"""A Function at one point: its inputs, outputs and weights, its gradients, and those that would be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..subject import Inputs, Subject, exact, leaves
from .comparing import same_bits
from .kinks import Slopes

Outputs = tuple[torch.Tensor, ...]
Grads = tuple[torch.Tensor | None, ...]

# Where the Function draws random numbers: the forward's seed, and another one that the backward finds.
FORWARD_SEED, BACKWARD_SEED = 987_654_321, 123_456_789


@dataclass(frozen=True)
class Judging:
    """How closely a point is looked at.

    told: where the inputs come from, for the messages; "" for those given. values: whether a wrong output is a finding,
    or a reason not to judge. crashes: whether an error in the backward is a finding. declared: whether the Spec's
    tolerances hold here. close: whether every difference from the reference counts, or one that the slope of the
    forward refutes as well. only_nan: whether NaN and infinite gradients alone count. elements: where there is no
    reference, as many of each input are tried one by one.
    """

    told: str = ""
    values: bool = False
    crashes: bool = True
    declared: bool = False
    close: bool = False
    only_nan: bool = False
    elements: int = 24
    fix: str = ""


@dataclass(frozen=True)
class Point:
    """A Function called at some inputs. right: the reference's outputs in float64, or None where there is none."""

    subject: Subject
    inputs: Inputs
    outputs: Outputs
    right: Outputs | None
    weights: tuple[torch.Tensor | None, ...]

    @property
    def truth(self) -> Callable[..., Any] | None:
        return self.subject.truth

    @property
    def derivable(self) -> bool:
        """Whether the gradient is meant to be the derivative of the forward."""
        return not self.subject.intent.surrogate


def steady(subject: Subject) -> Subject:
    """The subject; where two calls differ, one that draws the same numbers at every call, without a reference.

    Raises NotImplementedError where it draws them from elsewhere than torch's generators.
    """
    if not subject.intent.random and _repeats(subject):
        return subject
    seeded = replace(subject, apply=_seeded(subject.apply), reference=None)
    if not _repeats(seeded):
        raise NotImplementedError("two calls differ even with one seed: it draws from a generator of its own")
    return seeded


def fresh(inputs: Any) -> Any:
    """Copies: a Function that writes to its inputs spoils these alone."""

    def copied(t: Any) -> Any:
        return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t

    return pytree.tree_map(copied, inputs)


def right_outputs(subject: Subject, inputs: Inputs) -> Outputs | None:
    """The reference's outputs in float64; None where there is none, or where it refuses the inputs."""
    if subject.reference is None:
        return None
    try:
        with torch.no_grad():
            return subject.call(exact(fresh(inputs)), subject.reference)
    except Exception:  # the reference refuses such inputs, by an error of its own
        return None


def weights_of(subject: Subject, outputs: Outputs, right: Outputs | None) -> tuple[torch.Tensor | None, ...]:
    """Standard normal, 0 where the output (or the reference's) is not finite; None for outputs without a gradient."""
    judged = right if right is not None else outputs
    return tuple(
        None if w is None else torch.where(out.detach().isfinite() & want.detach().isfinite(), w, 0)
        for w, out, want in zip(subject.grad_outputs(outputs), outputs, judged, strict=True)
    )


def gradients(point: Point) -> Grads:
    """The gradients of the leaves for the point's weights, by a fresh forward. They are copied: some write to them."""
    inputs = fresh(point.inputs)
    outputs = point.subject.call(inputs)
    chosen = [
        (out, w.clone()) for out, w in zip(outputs, point.weights, strict=True) if out.requires_grad and w is not None
    ]
    wanted = leaves(inputs)
    if not chosen or not wanted:
        return tuple(None for _ in wanted)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(BACKWARD_SEED)
        return torch.autograd.grad(*_columns(chosen, wanted), allow_unused=True)


def right_gradients(point: Point) -> Grads | None:
    """Those of the reference (or the declared surrogate) in float64; None where there is neither."""
    if point.truth is None or (point.right is None and not point.subject.intent.surrogate):
        return None
    weights = tuple(None if w is None else wide(w) for w in point.weights)
    try:
        return point.subject.gradients(exact(fresh(point.inputs)), weights, point.truth)
    except Exception:  # the reference may raise anything beyond its domain
        return None


def slopes_of(point: Point) -> Slopes:
    """The slopes of the reference where there is one, else of the Function's own forward."""
    truth = point.truth if point.right is not None or point.subject.intent.surrogate else None
    inputs = exact(point.inputs) if truth else point.inputs
    return Slopes(lambda moved: point.subject.call(fresh(moved), truth), inputs, point.weights)


def all_finite(point: Point) -> bool:
    """Whether the outputs are."""
    return all(bool(out.isfinite().all()) for out in point.outputs)


def at(judging: Judging) -> str:
    """Where, at the end of what a message says."""
    return f" for {judging.told}" if judging.told else ""


def wide(t: torch.Tensor) -> torch.Tensor:
    """A copy in float64 or complex128, without history."""
    return t.detach().to(torch.complex128 if t.dtype.is_complex else torch.float64)


def _columns(chosen: list[tuple[torch.Tensor, torch.Tensor]], wanted: Outputs) -> tuple[Any, Any, Any]:
    outs, given = zip(*chosen, strict=True)
    return outs, wanted, given


def _repeats(subject: Subject) -> bool:
    with torch.random.fork_rng(devices=[]):
        first, second = (subject.call(subject.inputs()) for _ in range(2))
    return same_bits(first, second)


def _seeded(apply: Callable[..., Any]) -> Callable[..., Any]:
    def seeded(*arguments: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(FORWARD_SEED)
            return apply(*arguments)

    return seeded
