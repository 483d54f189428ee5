"""Values near the ends of a dtype's range: what overflows or becomes 0 between an input and a representable result."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import torch

from ..spec import dtype_name
from .rule import ERROR, INFO, WARNING, Finding, Rule
from .subject import Inputs, Subject, positions
from .tools.attempt import Raised, Result, attempt, copies, largest
from .tools.comparing import difference
from .tools.growing import Make, affordable, grown
from .tools.trials import (
    MARGIN,
    Trial,
    dtypes_of,
    error_of,
    floor,
    inputs_in,
    need_one_draw,
    pairs_of,
    trial_of,
)

# The largest input: what an activation may be, and what its square or its exponential no longer is.
ORDINARY = {torch.float16: 16.0}
HUGE = {torch.float16: 300.0, torch.float32: 100.0}
# Processor seconds after which no further dimension is made longer.
ENOUGH_S = 0.3
# What does not grow with the size, a mean for one: that of repeated values is the same, a norm's is 8 times as large.
STEADY = 2.0
WIDER = "compute in float32 inside, or rescale first (subtract the maximum, divide by the largest, or by the number)"
# Zeros: a constant such as 1e-8, which keeps from dividing by them, is 0 in float16. And values whose square is 0.
SMALL = ((torch.float16, 0.0), (torch.float32, 0.0), (torch.float16, 1e-5))


def overflow(subject: Subject) -> Iterator[Finding]:
    """Large values whose outputs and gradients are representable: nothing between may overflow."""
    need_one_draw(subject)
    judged = False
    for dtype, ordinary in ((torch.float16, True), (torch.float16, False), (torch.float32, False)):
        if dtype not in dtypes_of(subject):
            continue
        magnitude = (ORDINARY if ordinary else HUGE)[dtype]
        for who, inputs in _scaled(subject, dtype, magnitude):
            trial = trial_of(subject, inputs)
            if trial is None or not _representable(trial):
                continue
            judged = True
            got = attempt(subject, copies(trial.inputs), trial.weights)
            found = list(_overflowed(trial, got, who, ordinary)) if isinstance(got, Result) else []
            yield from found
            if found:
                break
    for finding in _over_many(subject):
        judged = True
        yield finding
    if not judged:
        raise NotImplementedError("no large values keep outputs and gradients representable in another dtype")


def _scaled(subject: Subject, dtype: torch.dtype, magnitude: float) -> Iterator[tuple[str, Inputs]]:
    """All differentiable inputs scaled to a largest magnitude, then each alone."""
    inputs = inputs_in(subject, dtype)
    places = [] if inputs is None else [at for at in positions(inputs) if largest(inputs[at])]
    for chosen in (places, *([at] for at in places if len(places) > 1)):
        who = f"values of up to {magnitude:g} in input {', '.join(map(str, chosen))}"
        if inputs is not None and chosen:
            yield who, tuple(_times(t, magnitude / largest(t)) if at in chosen else t for at, t in enumerate(inputs))


def _times(t: torch.Tensor, factor: float) -> torch.Tensor:
    return (t.detach() * factor).requires_grad_()


def _overflowed(trial: Trial, got: Result, who: str, ordinary: bool) -> Iterator[Finding]:
    """A gradient that is not finite beside a right output; an output or a gradient that PyTorch's own has right."""
    name = dtype_name(trial.dtype)
    pairs = list(pairs_of(got, trial.want))
    own = [] if trial.reference is None else list(pairs_of(trial.reference, trial.want))
    right_outputs = all(_right(trial, at, *pairs[at][1:]) for at in range(len(pairs)) if "output" in pairs[at][0])
    for at, (label, mine, true) in enumerate(pairs):
        if _right(trial, at, mine, true):
            continue
        owned = at < len(own) and _right(trial, at, *own[at][1:])
        is_output, alone, lost = "output" in label, trial.reference is None, not mine.isfinite().all()
        if is_output and not owned and not (alone and lost):
            return
        if not is_output and not (owned or (right_outputs and lost)):
            continue
        # Larger than all inputs, as the norm of huge ones is, it shows itself and is near the end of the range anyway.
        loud = is_output and not ordinary and lost and largest(true) > _largest_of(trial.inputs)
        found = difference(mine, true, 0.0, floor(trial, at), only_finite=True)
        if found is not None:
            message = f"an intermediate overflows in {name} for {who}, though the result is representable"
            severity = INFO if loud else WARNING if is_output and alone else ERROR
            yield replace(found.finding(message, label, WIDER), severity=severity)
        return


def _largest_of(inputs: Inputs) -> float:
    return max((largest(inputs[at]) for at in positions(inputs)), default=0.0)


def _over_many(subject: Subject) -> Iterator[Finding]:
    """In float16, over thousands of ordinary values, a sum within what does not grow with their number: a mean."""
    if torch.float16 not in dtypes_of(subject):
        return
    begin = time.process_time()
    for who, inputs in islice(_scaled(subject, torch.float16, ORDINARY[torch.float16]), 1):
        for size, make in grown(inputs):
            length = affordable(partial(_attempt_longer, subject, make), size)
            few, many = (trial_of(subject, make(each)) if length else None for each in (size, length))
            found = None if few is None or many is None else _lost_over_many(few, many)
            if found is not None:
                message = f"{found.message}, for {who}, where a dimension is {length} instead of {size}"
                yield replace(found, message=message)
                return
            if time.process_time() - begin > ENOUGH_S:
                return


def _attempt_longer(subject: Subject, make: Make, length: int) -> Result | Raised:
    return attempt(subject, make(length))


def _lost_over_many(few: Trial, many: Trial) -> Finding | None:
    """The first output that is finite over few and not over many, though the truth is much the same."""
    got = attempt(many.subject, copies(many.inputs), many.weights)
    if not isinstance(got, Result):
        return None
    own = [] if many.reference is None else list(pairs_of(many.reference, many.want))
    before = dict(few.want.named())
    for at, (label, mine, true) in enumerate(pairs_of(got, many.want)):
        owned = at < len(own) and bool(own[at][1].isfinite().all())
        if "output" not in label or mine.isfinite().all() or not (owned or many.reference is None):
            continue
        small = before.get(label)
        if not isinstance(small, torch.Tensor) or largest(true) > STEADY * largest(small):
            continue
        if not _fits(true, many.dtype):
            continue
        found = difference(mine, true, 0.0, 0.0, only_finite=True)
        if found is not None:
            told = found.finding("a sum overflows in float16, though the result is representable", label, WIDER)
            return replace(told, severity=ERROR if owned else WARNING)
    return None


def underflow(subject: Subject) -> Iterator[Finding]:
    """Zeros and tiny values: finite where the truth is finite, and where PyTorch's own arithmetic is."""
    need_one_draw(subject)
    judged = False
    for dtype, magnitude in SMALL:
        for who, inputs in _scaled(subject, dtype, magnitude) if dtype in dtypes_of(subject) else ():
            trial = trial_of(subject, inputs)
            if trial is None:
                continue
            judged = True
            got = attempt(subject, copies(trial.inputs), trial.weights)
            found = list(_not_finite(trial, got, who, loud=magnitude > 0)) if isinstance(got, Result) else []
            yield from found
            if found:
                return
    if not judged:
        raise NotImplementedError("no other dtype is taken, by the Function or by the reference")


def _not_finite(trial: Trial, got: Result, who: str, loud: bool) -> Iterator[Finding]:
    """The first result that is not finite where truth and PyTorch's own are.

    loud: for values below all use, an output that is not finite is a mere fact. Without a reference nobody knows
    whether PyTorch's own arithmetic does better.
    """
    own = [] if trial.reference is None else list(pairs_of(trial.reference, trial.want))
    for at, (label, mine, true) in enumerate(pairs_of(got, trial.want)):
        sound = not own or bool(own[at][1].isfinite().all())
        if mine.isfinite().all() or not sound or not _fits(true, trial.dtype):
            continue
        found = difference(mine, true, 0.0, 0.0, only_finite=True)
        if found is not None:
            name = dtype_name(trial.dtype)
            message = f"a constant or an intermediate becomes 0 in {name} for {who}, and something is divided by it"
            fix = "add an epsilon that the dtype has (torch.finfo(dtype).eps), or compute in float32 inside"
            alone = trial.reference is None
            severity = INFO if loud and ("output" in label or alone) else WARNING if alone else ERROR
            yield replace(found.finding(message, label, fix), severity=severity)
            return


def _fits(true: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether all of the truth is finite and well below the largest number of the dtype."""
    return bool(true.isfinite().all()) and largest(true) < torch.finfo(dtype).max / 4


def _right(trial: Trial, position: int, mine: torch.Tensor, true: torch.Tensor) -> bool:
    """Whether a result is finite and as near to the truth as roundings explain."""
    if not mine.isfinite().all():
        return False
    error = error_of(mine, true)
    return error <= floor(trial, position) or error <= MARGIN * trial.sensitive[position]


def _representable(trial: Trial) -> bool:
    """Whether all of the truth lies well within the dtype's range, and none of it is lost to its smallest numbers."""
    tensors = [t for _, t in trial.want.named() if isinstance(t, torch.Tensor)]
    lost = 16 * torch.finfo(trial.dtype).tiny
    return all(_fits(t, trial.dtype) and (largest(t) > lost or not t.any()) for t in tensors)


RULES = (
    Rule("overflow", ERROR, "no intermediate overflows where output and gradient are representable", overflow),
    Rule("underflow", ERROR, "nothing that guards a division becomes 0 in a smaller dtype", underflow),
)
