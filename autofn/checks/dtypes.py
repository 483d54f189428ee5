"""What changes with the dtype: crashes, lost precision, sums that stop growing. What is explained: see `trials`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from ..spec import dtype_name
from .rule import ERROR, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.attempt import Raised, Result, attempt, copies, largest
from .tools.comparing import difference
from .tools.growing import Make, affordable, grown
from .tools.trials import (
    MARGIN,
    Trial,
    coherent,
    dtypes_of,
    error_of,
    explained,
    floor,
    inputs_in,
    need_one_draw,
    of_reference,
    pairs_of,
    takes,
    trial_of,
    works_in_float64,
)

# Messages of operations that met two dtypes: one was made inside the Function.
MIXED = ("same dtype", "expected scalar type", "found dtype", "dtypes to match", "should have the same")
# Processor seconds after which no further dimension is made longer.
ENOUGH_S = 0.5
NO_KERNEL = ("not implemented for", "unsupported scalartype")


def dtype_crash(subject: Subject) -> Iterator[Finding]:
    """A dtype that the forward takes works in the backward; one that the reference takes meets no foreign dtype."""
    tried = False
    for dtype in dtypes_of(subject):
        inputs = inputs_in(subject, dtype)
        if inputs is None or (subject.reference is not None and of_reference(subject, inputs) is None):
            continue
        tried = True
        got = attempt(subject, copies(inputs))
        if isinstance(got, Raised) and works_in_float64(subject):
            yield from _crash(got, dtype, subject.reference is not None)
    if not tried:
        raise NotImplementedError("no other dtype is taken by the reference")


def _crash(got: Raised, dtype: torch.dtype, referred: bool) -> Iterator[Finding]:
    name = dtype_name(dtype)
    fix = "make constants with the input's dtype (new_zeros, zeros_like), or refuse the dtype in the forward"
    if any(words in str(got).lower() for words in NO_KERNEL):
        if got.stage == "backward":
            yield Finding("the forward takes it, but the backward has no kernel", name, str(got), severity=INFO)
    elif got.stage == "backward":
        yield Finding(f"the backward raises in {name}, which the forward takes", name, str(got), fix=fix)
    elif referred and isinstance(got.error, RuntimeError) and any(words in str(got).lower() for words in MIXED):
        yield Finding(f"the forward raises in {name}: a tensor made inside has another dtype", name, str(got), fix=fix)


def low_precision(subject: Subject) -> Iterator[Finding | Seen]:
    """Outputs and gradients in each dtype, against float64 for the same rounded values."""
    need_one_draw(subject)
    trials = [
        trial for dtype in dtypes_of(subject) if (trial := trial_of(subject, inputs_in(subject, dtype))) is not None
    ]
    if not trials:
        raise NotImplementedError("no other dtype is taken, by the Function or by the reference")
    for trial in trials:
        got = attempt(subject, copies(trial.inputs), trial.weights)
        if isinstance(got, Result):
            yield from _judged(subject, trial, got)


def _judged(subject: Subject, trial: Trial, got: Result) -> Iterator[Finding | Seen]:
    name = dtype_name(trial.dtype)
    for position, (label, mine, right) in enumerate(pairs_of(got, trial.want)):
        rtol, atol = _allowed(subject, trial, position)
        found = difference(mine, right, rtol, atol, only_finite=True)
        if found is not None and trial.dtype not in subject.tolerances:
            atol = max(atol, MARGIN * explained(trial, position))
            found = difference(mine, right, rtol, atol, only_finite=True)
        if found is None:
            yield Seen(error_of(mine, right))
            continue
        permitted = atol + rtol * largest(right)
        message = f"less precise in {name} than its arithmetic explains (allowed {permitted:.2g})"
        yield found.finding(message, label, "compute in float32 inside (`x.float()`), round once at the end")


def _allowed(subject: Subject, trial: Trial, position: int) -> tuple[float, float]:
    """(rtol, atol): what the Spec declares, else what the dtype explains."""
    if trial.dtype in subject.tolerances:
        declared = subject.tolerances[trial.dtype]
        return declared.rtol, declared.atol
    return 0.0, floor(trial, position)


def precision_grows(subject: Subject) -> Iterator[Finding | Seen]:
    """In a half type, the error over thousands of rows against that over a few: a sum must not stop growing."""
    need_one_draw(subject)
    dtype = next((each for each in (torch.bfloat16, torch.float16) if takes(subject, each)), None)
    if dtype is None:
        raise NotImplementedError("neither bfloat16 nor float16 is taken")
    judged, told = False, set[str]()
    for sizes, small, large in _lengthened(subject, dtype):
        judged = True
        for found in _growth(subject, sizes, small, large):
            if isinstance(found, Seen):
                yield found
            elif found.where not in told:
                told.add(found.where)
                yield found
    if not judged:
        raise NotImplementedError("no dimension of the inputs can be made longer, or not in a short time")


def _lengthened(subject: Subject, dtype: torch.dtype) -> Iterator[tuple[tuple[int, int], Trial, Trial]]:
    """(size, length), a trial with each, for every dimension that can be made longer, while there is time."""
    begin = time.process_time()
    for size, make in grown(subject.inputs(dtype)):
        if time.process_time() - begin > ENOUGH_S:
            return
        length = affordable(partial(_attempt_longer, subject, make), size)
        small, large = (coherent(subject, make(each)) if length else None for each in (size, length))
        if small is not None and large is not None:
            yield (size, length), small, large


def _attempt_longer(subject: Subject, make: Make, length: int) -> Result | Raised:
    return attempt(subject, make(length))


def _growth(subject: Subject, sizes: tuple[int, int], small: Trial, large: Trial) -> Iterator[Finding | Seen]:
    few, many = (attempt(subject, copies(each.inputs), each.weights) for each in (small, large))
    if isinstance(few, Raised) or isinstance(many, Raised):
        return
    eps = torch.finfo(large.dtype).eps
    pairs = zip(pairs_of(few, small.want), pairs_of(many, large.want), strict=False)
    for position, ((label, mine, right), (_, longer, true)) in enumerate(pairs):
        if not true.isfinite().all() or largest(true) > torch.finfo(large.dtype).max / 4:
            continue
        scale = largest(true) or 1.0
        before, after = error_of(mine, right) / (largest(right) or 1.0), error_of(longer, true) / scale
        plain = after <= max(4 * before, 16 * eps)
        own = 0.0 if plain else explained(large, position) / scale
        if plain or after <= MARGIN * own:
            yield Seen(after * scale)
            continue
        found = difference(longer, true, 0.0, 8 * eps * scale, only_finite=True)
        if found is not None:
            told = found.finding(
                f"loses precision with the size in {dtype_name(large.dtype)}: relative error {before:.2g} where a "
                f"dimension is {sizes[0]}, {after:.2g} where it is {sizes[1]} (explained: {own:.2g})",
                label,
                "add up in float32 and round once at the end: a running sum in a half type stops growing",
            )
            # Some of PyTorch's own sums stop growing too; only a reference tells whether they do.
            yield told if subject.reference is not None else replace(told, severity=WARNING)


RULES = (
    Rule("dtype-crash", ERROR, "a dtype that the forward takes works in the backward", dtype_crash),
    Rule("low-precision", ERROR, "float32 and half types lose no more than their arithmetic explains", low_precision),
    Rule("precision-grows", ERROR, "the error in half types does not grow with the size", precision_grows),
)
