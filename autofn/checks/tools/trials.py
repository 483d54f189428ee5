"""One set of values in one dtype, beside the truth for them and what an error of them may come from.

A Function is held against itself in float64 for the same values (rounded to the dtype first), so that a fault of the
formula is not told again; against the reference in float64 where it does not take float64. What may be lost is what
PyTorch's own arithmetic loses in that dtype, or what one more rounding of the arguments would change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from ..subject import Inputs, Subject, exact
from .attempt import Grads, Result, attempt, copies, disagreement, largest, weights_of
from .comparing import difference

LOW = (torch.float32, torch.float16, torch.bfloat16)

# Roundings of the largest element that any sound order of operations may cost on a few elements, without a Spec.
ROUNDINGS = {torch.float32: 256, torch.float16: 32, torch.bfloat16: 16}
# How many times more than PyTorch's own arithmetic, or than one rounding of the inputs, a Function may lose.
MARGIN = 8.0
# In float64: what tells a fault of the formula, which other rules report, from rounding.
SAME = 1e-6


@dataclass(frozen=True)
class Trial:
    """One set of values in one dtype. want: the truth in float64. reference: PyTorch's own arithmetic in the dtype."""

    subject: Subject
    dtype: torch.dtype
    inputs: Inputs
    weights: Grads
    want: Result
    reference: Result | None

    @cached_property
    def sensitive(self) -> tuple[float, ...]:
        """For every output and gradient, how far one more rounding of the arguments moves it in float64."""
        return _sensitivity(self)


def floor(trial: Trial, position: int) -> float:
    """What some roundings of the largest element come to."""
    right = list(trial.want.named())[position][1]
    size = largest(right) if isinstance(right, torch.Tensor) else 0.0
    return ROUNDINGS[trial.dtype] * torch.finfo(trial.dtype).eps * max(size, torch.finfo(trial.dtype).tiny)


def explained(trial: Trial, position: int) -> float:
    """The error of PyTorch's own arithmetic, or what one rounding of the arguments changes: whichever is more."""
    own = 0.0
    if trial.reference is not None:
        pairs = list(pairs_of(trial.reference, trial.want))
        own = error_of(*pairs[position][1:]) if position < len(pairs) else 0.0
    return max(own, trial.sensitive[position] if position < len(trial.sensitive) else 0.0)


def dtypes_of(subject: Subject) -> tuple[torch.dtype, ...]:
    if subject.compiled:
        raise NotImplementedError("compiled anew for each dtype: the rules that run every dtype judge those declared")
    return tuple(dtype for dtype in LOW if not subject.dtypes or dtype in subject.dtypes)


def need_one_draw(subject: Subject) -> None:
    """Raises NotImplementedError where the Function is random, declared or not: another dtype is another draw."""
    dtypes_of(subject)  # refuses what is compiled, before anything is
    first, second = (attempt(subject, subject.inputs(), seed=seed) for seed in (0, 1))
    both = isinstance(first, Result) and isinstance(second, Result)
    drawn = both and disagreement(first, second, SAME) is not None  # type: ignore[arg-type]
    if subject.intent.random or drawn:
        raise NotImplementedError("the Function is random: another dtype is another draw")


def inputs_in(subject: Subject, dtype: torch.dtype) -> Inputs | None:
    """Arguments in that dtype; None where whoever makes them cannot, or where none of them has a floating dtype."""
    try:
        inputs = subject.inputs(dtype)
    except Exception:  # a user's code may raise anything, and need not know this dtype
        return None
    return inputs if any(isinstance(t, torch.Tensor) and t.dtype == dtype for t in inputs) else None


def takes(subject: Subject, dtype: torch.dtype) -> bool:
    inputs = inputs_in(subject, dtype) if dtype in dtypes_of(subject) else None
    return inputs is not None and isinstance(attempt(subject, inputs), Result)


def works_in_float64(subject: Subject) -> bool:
    return isinstance(attempt(subject, subject.inputs(torch.float64)), Result)


def of_reference(subject: Subject, inputs: Inputs, weights: Grads | None = None) -> Result | None:
    """What PyTorch's own operations give for these arguments; None without a reference, or where it raises."""
    if subject.reference is None:
        return None
    got = attempt(subject, copies(inputs), weights, subject.reference)
    return got if isinstance(got, Result) else None


def trial_of(subject: Subject, inputs: Inputs | None, weights: Grads | None = None) -> Trial | None:
    """The truth for these values; None where Function or reference refuse the dtype, or where there is no truth."""
    if inputs is None or not isinstance(first := attempt(subject, copies(inputs), weights), Result):
        return None
    given = weights if weights is not None else weights_of(subject, inputs)
    own = of_reference(subject, inputs, given)
    if given is None or (subject.reference is not None and own is None):
        return None
    want = _truth(subject, inputs, given)
    if want is None or len(want.outputs) != len(first.outputs):
        return None
    dtype = next(t.dtype for t in inputs if isinstance(t, torch.Tensor) and t.is_floating_point())
    comparable = own if own is not None and not subject.intent.surrogate else None
    return Trial(subject, dtype, inputs, given, want, comparable)


def _truth(subject: Subject, inputs: Inputs, weights: Grads) -> Result | None:
    """The Function in float64, or the reference where the Function takes no float64."""
    for apply in (subject.apply, subject.reference):
        found = None if apply is None else attempt(subject, exact(copies(inputs)), exact_weights(weights), apply)
        if isinstance(found, Result):
            return found
    return None


def exact_weights(weights: Grads) -> Grads:
    return tuple(None if w is None else w.to(torch.complex128 if w.is_complex() else torch.float64) for w in weights)


def _sensitivity(trial: Trial) -> tuple[float, ...]:
    """How far outputs and gradients move in float64 when every argument is rounded once more, at worst of two."""
    found = [0.0] * len(list(trial.want.named()))
    for seed in range(2):
        shaken, generator = exact(copies(trial.inputs)), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for t in (*shaken, *(given := exact_weights(trial.weights))):
                _shake(t, torch.finfo(trial.dtype).eps, generator)
        moved = attempt(trial.subject, shaken, given)
        if isinstance(moved, Result):
            for position, (_, mine, right) in enumerate(pairs_of(moved, trial.want)):
                found[position] = max(found[position], error_of(mine, right))
    return tuple(found)


def _shake(t: Any, eps: float, generator: torch.Generator) -> None:
    """Multiplies in place each number by 1 plus or minus half an eps."""
    if isinstance(t, torch.Tensor) and t.is_floating_point():
        signs = torch.randint(0, 2, t.shape, generator=generator).to(t.device) - 0.5
        t.mul_(1 + eps * signs)


def coherent(subject: Subject, inputs: Inputs | None) -> Trial | None:
    """A trial whose grad_outputs are all 1, as those of `.sum()`: what is added up grows, and does not cancel.

    None also where the Function in float64 is not the reference: that is a fault of sizes, not of the dtype.
    """
    if inputs is None:
        return None
    weights = weights_of(subject, inputs)
    ones = None if weights is None else tuple(None if w is None else torch.ones_like(w) for w in weights)
    trial = None if ones is None else trial_of(subject, inputs, ones)
    if trial is None or subject.reference is None or subject.intent.surrogate:
        return trial
    true = attempt(subject, exact(copies(inputs)), exact_weights(trial.weights), subject.reference)
    return trial if isinstance(true, Result) and disagreement(trial.want, true, SAME) is None else None


def pairs_of(got: Result, want: Result) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Outputs and gradients that both have, with equal shapes, in the places of `want.named()`."""
    for (label, mine), (_, right) in zip(got.named(), want.named(), strict=False):
        if isinstance(mine, torch.Tensor) and isinstance(right, torch.Tensor) and mine.shape == right.shape:
            yield label, mine, right
        else:
            yield label, torch.zeros(()), torch.zeros(())


def error_of(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest difference where the truth is finite."""
    found = difference(got, want, 0.0, 0.0, only_finite=True)
    return 0.0 if found is None else found.error
