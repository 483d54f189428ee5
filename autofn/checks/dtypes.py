"""What changes with the dtype: crashes, lost precision, sums that stop growing, intermediates that overflow.

A Function is held against itself in float64 for the same values (rounded to the dtype first), so that a fault of the
formula is not told again; against the reference in float64 where it does not take float64. What may be lost is what
PyTorch's own arithmetic loses in that dtype, or what one more rounding of the inputs would change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from ..spec import dtype_name
from .attempt import Grads, Raised, Result, attempt, copies, disagreement, largest, weights_of
from .comparing import difference
from .growing import Make, affordable, grown
from .rule import ERROR, INFO, Finding, Rule, Seen
from .subject import Inputs, Subject, exact, positions

LOW = (torch.float32, torch.float16, torch.bfloat16)

# Roundings of the largest element that any sound order of operations may cost on a few elements, without a Spec.
ROUNDINGS = {torch.float32: 256, torch.float16: 32, torch.bfloat16: 16}
# How many times more than PyTorch's own arithmetic, or than one rounding of the inputs, a Function may lose.
MARGIN = 8.0
# In float64: what tells a fault of the formula, which other rules report, from rounding.
SAME = 1e-6
# Messages of operations that met two dtypes: one was made inside the Function.
MIXED = ("same dtype", "expected scalar type", "found dtype", "dtypes to match", "should have the same")
NO_KERNEL = ("not implemented for", "unsupported scalartype")


@dataclass(frozen=True)
class Trial:
    """One set of values in one dtype. want: the truth in float64. reference: PyTorch's own arithmetic in the dtype.

    sensitive: for every output and gradient, how far one more rounding of the arguments moves it in float64.
    """

    dtype: torch.dtype
    inputs: Inputs
    weights: Grads
    want: Result
    reference: Result | None
    sensitive: tuple[float, ...]


def dtype_crash(subject: Subject) -> Iterator[Finding]:
    """A dtype that the forward takes works in the backward; one that the reference takes meets no foreign dtype."""
    tried = False
    for dtype in _dtypes(subject):
        inputs = _inputs(subject, dtype)
        if inputs is None or (subject.reference is not None and _reference(subject, inputs) is None):
            continue
        tried = True
        got = attempt(subject, copies(inputs))
        if isinstance(got, Raised) and _works_in_float64(subject):
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
    _need_one_draw(subject)
    trials = [trial for dtype in _dtypes(subject) if (trial := _trial(subject, _inputs(subject, dtype))) is not None]
    if not trials:
        raise NotImplementedError("no other dtype is taken, by the Function or by the reference")
    for trial in trials:
        got = attempt(subject, copies(trial.inputs), trial.weights)
        if isinstance(got, Result):
            yield from _judged(subject, trial, got)


def _judged(subject: Subject, trial: Trial, got: Result) -> Iterator[Finding | Seen]:
    name = dtype_name(trial.dtype)
    for position, (label, mine, right) in enumerate(_pairs(got, trial.want)):
        rtol, atol = _allowed(subject, trial, position)
        found = difference(mine, right, rtol, atol, only_finite=True)
        if found is None:
            yield Seen(error_of(mine, right))
            continue
        permitted = atol + rtol * largest(right)
        message = f"less precise in {name} than its arithmetic explains (allowed {permitted:.2g})"
        yield found.finding(message, label, "compute in float32 inside (`x.float()`), round once at the end")


def _allowed(subject: Subject, trial: Trial, position: int) -> tuple[float, float]:
    """(rtol, atol): what the Spec declares, else what the dtype, PyTorch's own arithmetic and the values explain."""
    if trial.dtype in subject.tolerances:
        declared = subject.tolerances[trial.dtype]
        return declared.rtol, declared.atol
    return 0.0, max(_floor(trial, position), MARGIN * _explained(trial, position))


def _floor(trial: Trial, position: int) -> float:
    right = list(trial.want.named())[position][1]
    size = largest(right) if isinstance(right, torch.Tensor) else 0.0
    return ROUNDINGS[trial.dtype] * torch.finfo(trial.dtype).eps * max(size, torch.finfo(trial.dtype).tiny)


def _explained(trial: Trial, position: int) -> float:
    """The error of PyTorch's own arithmetic, or what one rounding of the arguments changes: whichever is more."""
    own = 0.0
    if trial.reference is not None:
        pairs = list(_pairs(trial.reference, trial.want))
        own = error_of(*pairs[position][1:]) if position < len(pairs) else 0.0
    return max(own, trial.sensitive[position] if position < len(trial.sensitive) else 0.0)


def precision_grows(subject: Subject) -> Iterator[Finding | Seen]:
    """In a half type, the error over thousands of rows against that over a few: a sum must not stop growing."""
    _need_one_draw(subject)
    dtype = next((each for each in (torch.bfloat16, torch.float16) if _takes(subject, each)), None)
    if dtype is None:
        raise NotImplementedError("neither bfloat16 nor float16 is taken")
    judged = False
    for size, make in grown(subject.inputs(dtype)):
        length = affordable(partial(_attempt_longer, subject, make), size)
        small, large = (_coherent(subject, make(each)) if length else None for each in (size, length))
        if small is None or large is None:
            continue
        judged = True
        yield from _growth(subject, (size, length), small, large)
    if not judged:
        raise NotImplementedError("no dimension of the inputs can be made longer")


def _attempt_longer(subject: Subject, make: Make, length: int) -> Result | Raised:
    return attempt(subject, make(length))


def _growth(subject: Subject, sizes: tuple[int, int], small: Trial, large: Trial) -> Iterator[Finding | Seen]:
    few, many = (attempt(subject, copies(each.inputs), each.weights) for each in (small, large))
    if isinstance(few, Raised) or isinstance(many, Raised):
        return
    eps = torch.finfo(large.dtype).eps
    pairs = zip(_pairs(few, small.want), _pairs(many, large.want), strict=False)
    for position, ((label, mine, right), (_, longer, true)) in enumerate(pairs):
        if longer.shape != true.shape or not true.isfinite().all():
            continue
        scale = largest(true) or 1.0
        before, after = error_of(mine, right) / (largest(right) or 1.0), error_of(longer, true) / scale
        explained = _explained(large, position) / scale
        if after <= max(MARGIN * explained, 4 * before, 16 * eps):
            yield Seen(after * scale)
            continue
        found = difference(longer, true, 0.0, 8 * eps * scale, only_finite=True)
        if found is not None:
            yield found.finding(
                f"loses precision with the size in {dtype_name(large.dtype)}: relative error {before:.2g} where a "
                f"dimension is {sizes[0]}, {after:.2g} where it is {sizes[1]} (PyTorch's own: {explained:.2g})",
                label,
                "add up in float32 and round once at the end: a running sum in a half type stops growing",
            )


def overflow(subject: Subject) -> Iterator[Finding]:
    """Large values whose outputs and gradients are representable: nothing between may overflow."""
    _need_one_draw(subject)
    judged = False
    for dtype, ordinary in ((torch.float16, True), (torch.float16, False), (torch.float32, False)):
        if dtype not in _dtypes(subject):
            continue
        for who, inputs in _enlarged(subject, dtype, ordinary):
            trial = _trial(subject, inputs)
            if trial is None or not _representable(trial):
                continue
            judged = True
            got = attempt(subject, copies(trial.inputs), trial.weights)
            found = list(_overflowed(trial, got, who, ordinary)) if isinstance(got, Result) else []
            yield from found
            if found:
                break
    if not judged:
        raise NotImplementedError("no large values keep outputs and gradients representable in another dtype")


# The largest input: what an activation may be, and what its square or its exponential no longer is.
ORDINARY = {torch.float16: 16.0}
HUGE = {torch.float16: 300.0, torch.float32: 100.0}


def _enlarged(subject: Subject, dtype: torch.dtype, ordinary: bool) -> Iterator[tuple[str, Inputs]]:
    """All differentiable inputs scaled to a largest magnitude, then each alone."""
    magnitude = (ORDINARY if ordinary else HUGE)[dtype]
    inputs = _inputs(subject, dtype)
    places = [] if inputs is None else [at for at in positions(inputs) if largest(inputs[at])]
    for chosen in (places, *([at] for at in places if len(places) > 1)):
        who = f"values of up to {magnitude:.0f} in input {', '.join(map(str, chosen))}"
        if inputs is not None and chosen:
            yield (
                who,
                tuple(
                    (t.detach() * (magnitude / largest(t))).requires_grad_() if at in chosen else t
                    for at, t in enumerate(inputs)
                ),
            )


def _overflowed(trial: Trial, got: Result, who: str, ordinary: bool) -> Iterator[Finding]:
    """A gradient that is not finite beside a right output; an output or a gradient that PyTorch's own has right."""
    name = dtype_name(trial.dtype)
    fix = "compute in float32 inside, or rescale first (subtract the maximum, divide by the largest magnitude)"
    pairs = list(_pairs(got, trial.want))
    own = [] if trial.reference is None else list(_pairs(trial.reference, trial.want))
    right_outputs = all(_right(trial, at, *pairs[at][1:]) for at in range(len(pairs)) if "output" in pairs[at][0])
    for at, (label, mine, true) in enumerate(pairs):
        if _right(trial, at, mine, true):
            continue
        owned = at < len(own) and _right(trial, at, *own[at][1:])
        is_output = "output" in label
        if is_output and not owned:
            return
        if not is_output and not (owned or (right_outputs and not mine.isfinite().all())):
            continue
        loud = is_output and not ordinary and not mine.isnan().any() and bool(mine.isinf().any())
        found = difference(mine, true, 0.0, _tolerated(trial, at), only_finite=True)
        if found is not None:
            message = f"an intermediate overflows in {name} for {who}, though the result is representable"
            yield replace(found.finding(message, label, fix), severity=INFO if loud else ERROR)
        return


def _right(trial: Trial, position: int, mine: torch.Tensor, true: torch.Tensor) -> bool:
    return bool(mine.isfinite().all()) and error_of(mine, true) <= _tolerated(trial, position)


def _tolerated(trial: Trial, position: int) -> float:
    return max(_floor(trial, position), MARGIN * trial.sensitive[position])


def _representable(trial: Trial) -> bool:
    """Whether all of the truth lies well within the dtype's range, and none of it is lost to its smallest numbers."""
    kind = torch.finfo(trial.dtype)
    tensors = [t for _, t in trial.want.named() if isinstance(t, torch.Tensor)]
    return trial.want.finite and all(16 * kind.tiny < largest(t) < kind.max / 4 or not t.any() for t in tensors)


# What a trial is made of


def _dtypes(subject: Subject) -> tuple[torch.dtype, ...]:
    if subject.compiled:
        raise NotImplementedError("compiled anew for each dtype: the rules that run every dtype judge those declared")
    return tuple(dtype for dtype in LOW if not subject.dtypes or dtype in subject.dtypes)


def _need_one_draw(subject: Subject) -> None:
    """Raises NotImplementedError where the Function is random, declared or not: another dtype is another draw."""
    first, second = (attempt(subject, subject.inputs(), seed=seed) for seed in (0, 1))
    both = isinstance(first, Result) and isinstance(second, Result)
    drawn = both and disagreement(first, second, SAME) is not None  # type: ignore[arg-type]
    if subject.intent.random or drawn:
        raise NotImplementedError("the Function is random: another dtype is another draw")


def _inputs(subject: Subject, dtype: torch.dtype) -> Inputs | None:
    """Arguments in that dtype; None where whoever makes them cannot."""
    try:
        return subject.inputs(dtype)
    except Exception:  # a user's code may raise anything, and need not know this dtype
        return None


def _takes(subject: Subject, dtype: torch.dtype) -> bool:
    inputs = _inputs(subject, dtype) if dtype in _dtypes(subject) else None
    return inputs is not None and isinstance(attempt(subject, inputs), Result)


def _works_in_float64(subject: Subject) -> bool:
    return isinstance(attempt(subject, subject.inputs(torch.float64)), Result)


def _reference(subject: Subject, inputs: Inputs, weights: Grads | None = None) -> Result | None:
    """What PyTorch's own operations give for these arguments; None without a reference, or where it raises."""
    if subject.reference is None:
        return None
    got = attempt(subject, copies(inputs), weights, subject.reference)
    return got if isinstance(got, Result) else None


def _trial(subject: Subject, inputs: Inputs | None, weights: Grads | None = None) -> Trial | None:
    """The truth for these values; None where Function or reference refuse the dtype, or where the truth is unsure."""
    if inputs is None or not isinstance(first := attempt(subject, copies(inputs), weights), Result):
        return None
    given = weights if weights is not None else weights_of(subject, inputs)
    own = _reference(subject, inputs, given)
    if given is None or (subject.reference is not None and own is None):
        return None
    want = _truth(subject, inputs, given)
    if want is None or len(want.outputs) != len(first.outputs):
        return None
    dtype = next(t.dtype for t in inputs if isinstance(t, torch.Tensor) and t.is_floating_point())
    comparable = own if own is not None and not subject.intent.surrogate else None
    return Trial(dtype, inputs, given, want, comparable, _sensitivity(subject, inputs, given, want, dtype))


def _truth(subject: Subject, inputs: Inputs, weights: Grads) -> Result | None:
    """The Function in float64, or the reference where the Function takes no float64. None if nothing repeats."""
    for apply in (subject.apply, subject.reference):
        first, second = (attempt(subject, exact(copies(inputs)), _exact(weights), apply) for _ in range(2))
        if apply is not None and isinstance(first, Result) and isinstance(second, Result):
            return first if disagreement(second, first, SAME) is None else None
    return None


def _exact(weights: Grads) -> Grads:
    return tuple(None if w is None else w.to(torch.complex128 if w.is_complex() else torch.float64) for w in weights)


def _sensitivity(
    subject: Subject, inputs: Inputs, weights: Grads, want: Result, dtype: torch.dtype
) -> tuple[float, ...]:
    """How far outputs and gradients move in float64 when every argument is rounded once more, at worst of three."""
    found = [0.0] * len(list(want.named()))
    for seed in range(3):
        shaken, generator = exact(copies(inputs)), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for t in (*shaken, *(given := _exact(weights))):
                _shake(t, torch.finfo(dtype).eps, generator)
        moved = attempt(subject, shaken, given)
        if isinstance(moved, Result):
            for position, (_, mine, right) in enumerate(_pairs(moved, want)):
                found[position] = max(found[position], error_of(mine, right))
    return tuple(found)


def _shake(t: Any, eps: float, generator: torch.Generator) -> None:
    """Multiplies in place each number by 1 plus or minus half an eps."""
    if isinstance(t, torch.Tensor) and t.is_floating_point():
        signs = torch.randint(0, 2, t.shape, generator=generator).to(t.device) - 0.5
        t.mul_(1 + eps * signs)


def _coherent(subject: Subject, inputs: Inputs | None) -> Trial | None:
    """A trial whose grad_outputs are all 1, as those of `.sum()`: what is added up grows, and does not cancel.

    None also where the Function in float64 is not the reference: that is a fault of sizes, not of the dtype.
    """
    if inputs is None:
        return None
    weights = weights_of(subject, inputs)
    ones = None if weights is None else tuple(None if w is None else torch.ones_like(w) for w in weights)
    trial = None if ones is None else _trial(subject, inputs, ones)
    if trial is None or subject.reference is None or subject.intent.surrogate:
        return trial
    true = attempt(subject, exact(copies(inputs)), _exact(trial.weights), subject.reference)
    return trial if isinstance(true, Result) and disagreement(trial.want, true, SAME) is None else None


def _pairs(got: Result, want: Result) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
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


RULES = (
    Rule("dtype-crash", ERROR, "a dtype that the forward takes works in the backward", dtype_crash),
    Rule("low-precision", ERROR, "float32 and half types lose no more than their arithmetic explains", low_precision),
    Rule("precision-grows", ERROR, "the error in half types does not grow with the size", precision_grows),
    Rule("overflow", ERROR, "no intermediate overflows where output and gradient are representable", overflow),
)
