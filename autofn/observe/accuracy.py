"""How far what a case computes lies from what it should: the error against the formula in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..case import Case, Outputs, as_tuple, exact_inputs, undirtied

PHASES = ("forward", "backward")
Results = tuple[torch.Tensor | None, ...]


class Formula(Protocol):
    """What is true of a Function: a Spec, or what says as much."""

    @property
    def reference(self) -> Callable[..., Any]: ...

    @property
    def surrogate(self) -> Callable[..., Any] | None: ...

    @property
    def random(self) -> bool: ...

    @property
    def mutates(self) -> tuple[int, ...]: ...


def error(spec: Formula, case: Case) -> dict[str, float]:
    """The relative error of the outputs, "forward", and of the gradients, "backward": 0 is exact.

    Of each tensor the Euclidean norm of what is wrong over that of the truth, of several the largest. The truth is the
    reference in float64 at the same values and grad_outputs, with the gradients of the surrogate where the Spec
    declares one. Elements whose truth is not finite are left out. Infinite where a truth of zeros is missed, or a
    finite one is not finite here.
    """
    outputs, grads = evaluate(spec, case.apply, case.inputs, case.grad_outputs)
    true_outputs, true_grads = truth(spec, case.inputs, case.grad_outputs)
    return {"forward": _worst(outputs, true_outputs), "backward": _worst(grads, true_grads)}


def truth(spec: Formula, inputs: tuple[Any, ...], grad_outputs: Outputs) -> tuple[Results, Results]:
    """What `evaluate` should give: the reference in float64, with the gradients of the surrogate where there is one."""
    exact = exact_inputs(inputs)
    wide = tuple(grad.double() for grad in grad_outputs)
    outputs, grads = evaluate(spec, spec.reference, exact, wide)
    if spec.surrogate is not None:
        _, grads = evaluate(spec, spec.surrogate, exact, wide)
    return outputs, grads


def evaluate(
    spec: Formula, apply: Callable[..., Any], inputs: tuple[Any, ...], grad_outputs: Outputs
) -> tuple[Results, Results]:
    """Outputs, and the gradients of the inputs that require grad, as plain tensors."""
    if spec.random:
        torch.manual_seed(0)
    outputs = as_tuple(apply(*undirtied(spec.mutates, inputs)))
    leaves = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
    grads = torch.autograd.grad(outputs, leaves, grad_outputs, allow_unused=True) if leaves else ()
    return tuple(out.detach() for out in outputs), grads


def _worst(found: Sequence[torch.Tensor | None], truth: Sequence[torch.Tensor | None]) -> float:
    return max((_relative(mine, right) for mine, right in zip(found, truth, strict=True)), default=0.0)


def _relative(found: torch.Tensor | None, truth: torch.Tensor | None) -> float:
    """The norm of the difference over that of the truth; None stands for zeros."""
    if truth is None:
        return 0.0 if found is None or not found.any() else math.inf
    finite = truth.isfinite()
    right = torch.where(finite, truth.double(), 0.0)
    mine = torch.zeros_like(right) if found is None else torch.where(finite, found.double(), 0.0)
    wrong = float((mine - right).norm())
    if wrong == 0:
        return 0.0
    size = float(right.norm())
    return wrong / size if size and math.isfinite(wrong) else math.inf
