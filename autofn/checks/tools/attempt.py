"""One forward and one backward of a Function, tried: the values that came out, or what was raised and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...case import as_tuple
from ..subject import Inputs, Subject, leaves, positions
from .comparing import Difference, difference

Grads = tuple[torch.Tensor | None, ...]

# What is left in float64 where numbers of about 1 cancel: a million roundings.
NOISE = 1e-10


@dataclass(frozen=True)
class Result:
    """The outputs, detached, and the gradients of the arguments that require grad, each with its position."""

    outputs: tuple[Any, ...]
    grads: Grads
    places: tuple[int, ...]

    def named(self) -> Iterator[tuple[str, Any]]:
        """Every output and gradient beside the name that a finding gives it."""
        yield from ((f"output {at}", each) for at, each in enumerate(self.outputs))
        yield from ((f"gradient of input {at}", each) for at, each in zip(self.places, self.grads, strict=True))

    def gradients(self) -> Result:
        """The gradients alone."""
        return Result((), self.grads, self.places)

    @property
    def finite(self) -> bool:
        return all(bool(t.isfinite().all()) for _, t in self.named() if isinstance(t, torch.Tensor))


@dataclass(frozen=True)
class Raised:
    """What stopped an attempt. stage: "forward" or "backward"."""

    stage: str
    error: Exception

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {' '.join(str(self.error).split())[:200]}"


def attempt(
    subject: Subject,
    inputs: Inputs,
    weights: Grads | None = None,
    apply: Callable[..., Any] | None = None,
    *,
    seed: int = 0,
) -> Result | Raised:
    """What comes out for these very arguments, with the random state the same at every attempt.

    weights: the grad_outputs, one an output; by default those of `Subject.grad_outputs`. seed: of the random state.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            outputs = subject.call(inputs, apply)
        except Exception as error:  # a Function may raise anything
            return Raised("forward", error)
        given = subject.grad_outputs(outputs) if weights is None else weights
        try:
            grads = _backward(outputs, given, leaves(inputs))
        except Exception as error:  # a Function may raise anything
            return Raised("backward", error)
    detached = tuple(t.detach() if isinstance(t, torch.Tensor) else t for t in outputs)
    return Result(detached, grads, tuple(positions(inputs)))


def _backward(outputs: Sequence[Any], weights: Grads, wanted: Sequence[torch.Tensor]) -> Grads:
    pairs = [
        (out, w)
        for out, w in zip(outputs, weights, strict=False)
        if w is not None and isinstance(out, torch.Tensor) and out.requires_grad
    ]
    if not pairs or not wanted:
        return tuple(None for _ in wanted)
    outs, given = zip(*pairs, strict=True)
    return torch.autograd.grad(outs, wanted, given, allow_unused=True)


def copies(inputs: Inputs) -> Inputs:
    """The same values again in memory of their own: an earlier call may have written to its arguments."""
    return tuple(_copy(t) for t in inputs)


def _copy(t: Any) -> Any:
    if isinstance(t, torch.Tensor):
        return t.detach().clone().requires_grad_(t.requires_grad)
    if isinstance(t, (list, tuple)) and type(t) in (list, tuple):
        return type(t)(_copy(each) for each in t)
    return t


def weights_of(subject: Subject, inputs: Inputs, apply: Callable[..., Any] | None = None) -> Grads | None:
    """The grad_outputs that fit what comes out for these arguments; None where the forward raises."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return subject.grad_outputs(as_tuple(subject.call(copies(inputs), apply)))
        except Exception:  # a Function may raise anything; who asks for weights goes on to attempt, and is told
            return None


def disagreement(got: Result, want: Result, rtol: float, usual: Result | None = None) -> tuple[str, Difference] | None:
    """The first output or gradient that lies farther off than rtol times the largest element of the expected one.

    usual: the same for other arguments, whose largest elements count as well: where all cancels, rounding is all that
    is left. A shape that differs is a disagreement too; a gradient that only one of the two has is not compared.
    """
    sizes = [largest(t) if isinstance(t, torch.Tensor) else 0.0 for _, t in (usual or want).named()]
    for (name, mine), (_, right), size in zip(got.named(), want.named(), sizes, strict=False):
        if not isinstance(mine, torch.Tensor) or not isinstance(right, torch.Tensor):
            continue
        if mine.shape != right.shape:
            shapes = str(list(mine.shape)), str(list(right.shape))
            return name, Difference(torch.finfo(torch.float64).max, (), *shapes, mine.numel(), right.numel())
        found = difference(mine, right, 0.0, max(rtol * max(size, largest(right)), NOISE))
        if found is not None:
            return name, found
    return None


def largest(t: torch.Tensor) -> float:
    """The largest finite magnitude; 0 where there is none."""
    finite = t.detach()[t.detach().isfinite()].abs()
    return float(finite.max()) if finite.numel() else 0.0
