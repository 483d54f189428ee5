"""A Function at one point: its outputs and gradients against the reference, or against its own forward.

Where the reference (in float64) or the Function itself refuses the inputs, or the result is not finite, nothing is
judged. At a kink every gradient between the slopes ahead and behind is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from ..rule import Finding, Seen
from ..subject import Inputs, Subject, positions
from .comparing import allowed, difference, worst
from .kinks import one, slope
from .point import (
    Grads,
    Judging,
    Outputs,
    Point,
    at,
    fresh,
    gradients,
    right_gradients,
    right_outputs,
    slopes_of,
    weights_of,
    wide,
)
from .refuting import against_the_forward, lost

# Wrong elements that are tried for a kink: each takes a few calls of the forward.
TRIED = 8
# Below it a number is denormal, and as good as 0.
SMALLEST = 2.3e-308
# Roundings of a gradient of the natural size, max(grad_output) * max(output) / max(input): what is left of an exact 0.
ROUNDINGS = 64


def need_right_as_given(subject: Subject) -> Inputs:
    """The given inputs. Raises NotImplementedError where the Function is wrong there: no other ones tell more."""
    given = subject.inputs()
    found = examine(subject, given, Judging(values=True, declared=True, close=True))
    if found is None:
        raise NotImplementedError("the given inputs are refused, or their outputs are not finite")
    if any(isinstance(each, Finding) for each in found):
        raise NotImplementedError("it is wrong for the given inputs already: see the rules value and gradient")
    return given


def need_judged(judged: bool, reason: str) -> None:
    """Raises NotImplementedError with the reason where no point could be judged."""
    if not judged:
        raise NotImplementedError(reason)


def examine(subject: Subject, inputs: Inputs, judging: Judging) -> list[Finding | Seen] | None:
    """What is wrong at a point; None where it cannot be judged. The subject is steady."""
    right = right_outputs(subject, inputs)
    if right is None and subject.reference is not None:
        return None
    try:
        outputs = subject.call(fresh(inputs))
    except Exception:  # it refuses such inputs, each Function by an error of its own
        return None
    seen = list(compare_outputs(subject, outputs, right, judging)) if right is not None else []
    wrong = [each for each in seen if isinstance(each, Finding)]
    if wrong:
        return [*wrong] if judging.values else None
    weights = weights_of(subject, outputs, right)
    if not any(weight is not None and bool(weight.any()) for weight in weights) and any(o.numel() for o in outputs):
        return None
    point = Point(subject, inputs, outputs, right, weights)
    try:
        got = gradients(point)
    except Exception as error:  # a backward may raise anything
        return [_crash(error, judging)] if judging.crashes else None
    return list(compare_gradients(point, got, judging))


def compare_outputs(subject: Subject, outputs: Outputs, right: Outputs, judging: Judging) -> Iterator[Finding | Seen]:
    """The outputs against those of the reference in float64."""
    if len(outputs) != len(right):
        yield Finding(
            f"it returns another number of outputs{at(judging)}", "outputs", str(len(outputs)), str(len(right))
        )
        return
    for place, (mine, want) in enumerate(zip(outputs, right, strict=True)):
        where = f"output {place}"
        if mine.shape != want.shape:
            message = f"has another shape than the reference's{at(judging)}"
            yield Finding(message, where, str(list(mine.shape)), str(list(want.shape)), fix=judging.fix)
            continue
        rtol, atol = _allowed(subject, mine.dtype, want, judging)
        found = difference(mine, want, rtol, max(atol, SMALLEST), only_finite=not judging.declared)
        if found:
            yield found.finding(f"differs from the reference in float64{at(judging)}", where, judging.fix)
        elif judging.declared:
            yield Seen(worst(mine, want))


def compare_gradients(point: Point, got: Grads, judging: Judging) -> Iterator[Finding | Seen]:
    """The gradients against those of the reference, or where there is none against the forward's slopes."""
    places = positions(point.inputs)
    want = right_gradients(point)
    if want is None:
        yield from against_the_forward(point, got, judging)
        return
    for leaf, (place, mine, right) in enumerate(zip(places, got, want, strict=True)):
        where, t = f"gradient of input {place}", point.inputs[place]
        if mine is None:
            if right is not None and bool(right.isfinite().all()) and bool(right.any()) and not judging.only_nan:
                yield Finding(
                    f"is None{at(judging)}, although the output depends on it", where, "None", _size(right),
                    fix=f"return the gradient of input {place} from backward where ctx.needs_input_grad[{place}]",
                )  # fmt: skip
            continue
        true = torch.zeros_like(mine, dtype=wide(mine).dtype) if right is None else right
        yield from _wrong_elements(point, leaf, where, (mine, true, t), judging)


def _wrong_elements(
    point: Point, leaf: int, where: str, compared: tuple[torch.Tensor, ...], judging: Judging
) -> Iterator[Finding | Seen]:
    mine, right, t = compared
    gone = ~mine.isfinite() & right.isfinite()
    if bool(gone.any()):
        yield lost(mine, right, gone, where, judging)
        return
    if judging.only_nan:
        return
    rtol, atol = _allowed(point.subject, t.dtype, right, judging)
    atol = max(atol, _rounding(point, t), SMALLEST)
    found = difference(mine, right, rtol, atol, only_finite=True)
    if found and not _excused(point, leaf, (mine, right), (rtol, atol), judging):
        hint = _hint(point, leaf, judging)
        yield found.finding(f"differs from that of the reference in float64{at(judging)}{hint}", where, judging.fix)
    elif judging.declared and not found:
        yield Seen(worst(mine, right))


def _excused(
    point: Point, leaf: int, compared: tuple[torch.Tensor, ...], tolerances: tuple[float, float], judging: Judging
) -> bool:
    """Whether every difference lies on a kink (or, if not looked at closely, is what the forward's slope says).

    Equal elements make kinks among themselves, of which one element alone need not show any: the median of three equal
    numbers moves with none of them. There the gradients of the equals are held together against their common slope.
    """
    mine, right = (wide(each) for each in compared)
    place = positions(point.inputs)[leaf]
    gap = torch.where(right.isfinite(), (mine - right).abs(), 0)
    wrong = gap > tolerances[1] + tolerances[0] * right.abs().nan_to_num()
    largest = torch.where(wrong, gap, 0).reshape(-1).argsort(descending=True, stable=True)
    slopes = slopes_of(point)
    t = slopes.inputs[place].detach()

    def same(direction: torch.Tensor) -> bool:
        ours, theirs = (slope(grad, direction) for grad in (mine, torch.where(right.isfinite(), right, 0)))
        return (
            abs(ours - theirs) <= tolerances[1] + tolerances[0] * abs(theirs)
            or slopes.kink({place: direction}, ours, theirs)
            or (not judging.close and slopes.explains({place: direction}, ours))
        )

    def contradicted(direction: torch.Tensor) -> bool:
        return not slopes.explains({place: direction}, slope(right, direction))

    tried = largest[: min(TRIED, int(wrong.sum()))].tolist()
    equals = {index: t == t.reshape(-1)[index] for index in tried}
    tied = [index for index in tried if int(equals[index].sum()) > 1]
    among_equals = any(contradicted(one(t, index)) for index in tied)
    return all(same(one(t, index)) or (index in tied and among_equals) for index in tried) and all(
        same(equals[index].to(t.dtype)) for index in tied
    )


def _hint(point: Point, leaf: int, judging: Judging) -> str:
    """Whether a grad_output of ones would have hidden the difference: the usual test sums the output."""
    plain = replace(point, weights=tuple(None if w is None else torch.ones_like(w) for w in point.weights))
    try:
        mine, all_right = gradients(plain)[leaf], right_gradients(plain)
    except Exception:  # the difference is told anyway
        return ""
    right = None if all_right is None else all_right[leaf]
    if mine is None or right is None or difference(mine, right, *_allowed(point.subject, mine.dtype, right, judging)):
        return ""
    return " (it is right where grad_output is constant)"


def _crash(error: Exception, judging: Judging) -> Finding:
    line = " ".join(str(error).split())[:300]
    return Finding(
        f"raises{at(judging)}, which the forward accepts", "backward", f"{type(error).__name__}: {line}",
        "the gradients", fix=judging.fix or "refuse such inputs in forward, or make backward work for them",
    )  # fmt: skip


def _allowed(subject: Subject, dtype: torch.dtype, want: torch.Tensor, judging: Judging) -> tuple[float, float]:
    """The Spec's tolerance holds for the inputs that it makes; elsewhere it is one in the largest element."""
    if judging.declared:
        return allowed(subject, dtype, want)
    return allowed(replace(subject, tolerances={}), dtype, want)


def _rounding(point: Point, t: torch.Tensor) -> float:
    """What roundings leave of a gradient that is exactly 0."""
    if not t.dtype.is_floating_point and not t.dtype.is_complex:
        return 0.0
    sizes = [_largest(each) for each in (point.weights, point.outputs, (t,))]
    return ROUNDINGS * torch.finfo(t.dtype).eps * sizes[0] * sizes[1] / sizes[2] if sizes[2] else 0.0


def _largest(tensors: Sequence[torch.Tensor | None]) -> float:
    finite = [t.detach()[t.detach().isfinite()].abs() for t in tensors if t is not None and t.numel()]
    return max((float(t.max()) for t in finite if t.numel()), default=0.0)


def _size(t: torch.Tensor) -> str:
    return f"up to {float(t.abs().max()):.6g}"
