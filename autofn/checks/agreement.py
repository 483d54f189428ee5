"""A Function at one point: its outputs and gradients against the reference, or against its own forward.

Where the reference (in float64) or the Function itself refuses the inputs, or the result is not finite, nothing is
judged. At a kink every gradient between the slopes ahead and behind is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .comparing import allowed, difference, same_bits, worst
from .kinks import Slopes, one, slope
from .rule import Finding, Seen
from .subject import Inputs, Subject, exact, leaves, positions

Outputs = tuple[torch.Tensor, ...]
Grads = tuple[torch.Tensor | None, ...]

# Where the Function draws random numbers: the forward's seed, and another one that the backward finds.
FORWARD_SEED, BACKWARD_SEED = 987_654_321, 123_456_789
# Wrong elements that are tried for a kink: each takes a few calls of the forward.
TRIED = 8
# Of the sum of a slope's absolute terms: less is rounding, some thousand times over.
CANCELLED = 1e-12
# Below it a number is denormal, and as good as 0.
SMALLEST = 2.3e-308
# Of large tensors, whose forward takes its time, no more than a few elements are tried one by one.
LARGE, ELEMENTS_OF_LARGE = 10_000, 3
# Roundings of a gradient of the natural size, max(grad_output) * max(output) / max(input): what is left of an exact 0.
ROUNDINGS = 64


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
    weights = _weights(subject, outputs, right)
    if not any(weight is not None and bool(weight.any()) for weight in weights) and any(o.numel() for o in outputs):
        return None
    point = Point(subject, inputs, outputs, right, weights)
    try:
        got = gradients(point)
    except Exception as error:  # a backward may raise anything
        return [_crash(error, judging)] if judging.crashes else None
    return list(compare_gradients(point, got, judging))


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
    with torch.random.fork_rng():
        torch.manual_seed(BACKWARD_SEED)
        return torch.autograd.grad(*_columns(chosen, wanted), allow_unused=True)


def right_gradients(point: Point) -> Grads | None:
    """Those of the reference (or the declared surrogate) in float64; None where there is neither."""
    if point.truth is None or (point.right is None and not point.subject.intent.surrogate):
        return None
    weights = tuple(None if w is None else _wide(w) for w in point.weights)
    try:
        return point.subject.gradients(exact(fresh(point.inputs)), weights, point.truth)
    except Exception:  # the reference may raise anything beyond its domain
        return None


def slopes_of(point: Point) -> Slopes:
    """The slopes of the reference where there is one, else of the Function's own forward."""
    truth = point.truth if point.right is not None or point.subject.intent.surrogate else None
    inputs = exact(point.inputs) if truth else point.inputs
    return Slopes(lambda moved: point.subject.call(fresh(moved), truth), inputs, point.weights)


def compare_outputs(subject: Subject, outputs: Outputs, right: Outputs, judging: Judging) -> Iterator[Finding | Seen]:
    """The outputs against those of the reference in float64."""
    if len(outputs) != len(right):
        yield Finding(
            f"it returns another number of outputs{_at(judging)}", "outputs", str(len(outputs)), str(len(right))
        )
        return
    for place, (mine, want) in enumerate(zip(outputs, right, strict=True)):
        where = f"output {place}"
        if mine.shape != want.shape:
            message = f"has another shape than the reference's{_at(judging)}"
            yield Finding(message, where, str(list(mine.shape)), str(list(want.shape)), fix=judging.fix)
            continue
        rtol, atol = _allowed(subject, mine.dtype, want, judging)
        found = difference(mine, want, rtol, max(atol, SMALLEST), only_finite=not judging.declared)
        if found:
            yield found.finding(f"differs from the reference in float64{_at(judging)}", where, judging.fix)
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
                    f"is None{_at(judging)}, although the output depends on it", where, "None", _size(right),
                    fix=f"return the gradient of input {place} from backward where ctx.needs_input_grad[{place}]",
                )  # fmt: skip
            continue
        true = torch.zeros_like(mine, dtype=_wide(mine).dtype) if right is None else right
        yield from _wrong_elements(point, leaf, where, (mine, true, t), judging)


def _wrong_elements(
    point: Point, leaf: int, where: str, compared: tuple[torch.Tensor, ...], judging: Judging
) -> Iterator[Finding | Seen]:
    mine, right, t = compared
    lost = ~mine.isfinite() & right.isfinite()
    if bool(lost.any()):
        yield _lost(mine, right, lost, where, judging)
        return
    if judging.only_nan:
        return
    rtol, atol = _allowed(point.subject, t.dtype, right, judging)
    atol = max(atol, _rounding(point, t), SMALLEST)
    found = difference(mine, right, rtol, atol, only_finite=True)
    if found and not _excused(point, leaf, (mine, right), (rtol, atol), judging):
        hint = _hint(point, leaf, judging)
        yield found.finding(f"differs from that of the reference in float64{_at(judging)}{hint}", where, judging.fix)
    elif judging.declared and not found:
        yield Seen(worst(mine, right))


def _excused(
    point: Point, leaf: int, compared: tuple[torch.Tensor, ...], tolerances: tuple[float, float], judging: Judging
) -> bool:
    """Whether every difference lies on a kink (or, if not looked at closely, is what the forward's slope says).

    Equal elements make kinks among themselves, of which one element alone need not show any: the median of three equal
    numbers moves with none of them. There the gradients of the equals are held together against their common slope.
    """
    mine, right = (_wide(each) for each in compared)
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


def against_the_forward(point: Point, got: Grads, judging: Judging) -> Iterator[Finding]:
    """Without a reference: NaN beside finite outputs, and slopes that the forward refutes by every step."""
    if not _all_finite(point):
        return
    places = positions(point.inputs)
    for place, mine in zip(places, got, strict=True):
        if mine is not None and bool(mine.isnan().any()):
            yield _lost(mine, torch.zeros_like(mine), mine.isnan(), f"gradient of input {place}", judging)
            return
    if judging.only_nan or not point.derivable or point.outputs[0].dtype not in (torch.float64, torch.complex128):
        return
    slopes = slopes_of(point)
    for place, mine in zip(places, got, strict=True):
        for direction, described in directions(point.inputs[place], _most(point, judging)):
            claimed = 0.0 if mine is None else _claimed(mine, direction)
            if not abs(claimed) < torch.inf or slopes.near({place: direction}, claimed):
                continue
            if not slopes.explains({place: direction}, claimed):
                yield _refuted(slopes, {place: direction}, claimed, described, judging)
                break


def _refuted(
    slopes: Slopes, direction: dict[int, torch.Tensor], claimed: float, described: str, judging: Judging
) -> Finding:
    (place,) = direction
    true = slopes.interval(direction, 1e-6)
    middle = (true.lower + true.upper) / 2
    return Finding(
        f"is not the slope of the forward{_at(judging)}, {described}",
        f"gradient of input {place}", f"{claimed:.6g}", str(true), abs(claimed - middle), judging.fix,
    )  # fmt: skip


def directions(t: torch.Tensor, most: int) -> Iterator[tuple[torch.Tensor, str]]:
    """Directions to try: one element each, the first, the last, others, `most` at most; then all elements at once.

    Equal elements move together: the median of three equal numbers moves with none of them alone.
    """
    values, groups, counts = _unique(t.detach())
    finite = t.detach().isfinite()
    if not bool(finite.any()):
        return
    generator = torch.Generator().manual_seed(3)
    ends = dict.fromkeys((0, t.numel() - 1))
    others = 1 + torch.randperm(max(t.numel() - 2, 0), generator=generator)
    chosen = [*ends, *others.tolist()][:most]
    for group in dict.fromkeys(int(groups.reshape(-1)[index]) for index in chosen):
        if bool(values[group].isfinite()):
            where = (groups == group).nonzero()[0].tolist()
            more = f" and {int(counts[group]) - 1} more elements equal to it" if counts[group] > 1 else ""
            yield (groups == group).to(t.dtype), f"at {where}{more}"
    if values.numel() > 1:
        everywhere = torch.randn(values.shape, generator=generator, dtype=torch.float64).to(t)[groups]
        yield torch.where(finite, everywhere, 0), "along a random direction"


def _lost(mine: torch.Tensor, right: torch.Tensor, lost: torch.Tensor, where: str, judging: Judging) -> Finding:
    index = int(lost.reshape(-1).int().argmax())
    at = [int(each) for each in torch.unravel_index(torch.tensor(index), lost.shape)]
    bad, good = (each.detach().reshape(-1)[index].item() for each in (mine, right))
    known = f"{good:.6g}" if judging.told == "" or right.any() or not lost.all() else "a finite number"
    return Finding(
        f"is not finite{_at(judging)}, although the output is; {int(lost.sum())} of {lost.numel()} elements, "
        f"the first at {at}",
        where, f"{bad}", known, torch.finfo(torch.float64).max,
        judging.fix or "guard the division or the difference that gives 0/0 or inf - inf there",
    )  # fmt: skip


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
        f"raises{_at(judging)}, which the forward accepts", "backward", f"{type(error).__name__}: {line}",
        "the gradients", fix=judging.fix or "refuse such inputs in forward, or make backward work for them",
    )  # fmt: skip


def _weights(subject: Subject, outputs: Outputs, right: Outputs | None) -> tuple[torch.Tensor | None, ...]:
    """Standard normal, 0 where the output (or the reference's) is not finite; None for outputs without a gradient."""
    judged = right if right is not None else outputs
    return tuple(
        None if w is None else torch.where(out.detach().isfinite() & want.detach().isfinite(), w, 0)
        for w, out, want in zip(subject.grad_outputs(outputs), outputs, judged, strict=True)
    )


def right_outputs(subject: Subject, inputs: Inputs) -> Outputs | None:
    """The reference's outputs in float64; None where there is none, or where it refuses the inputs."""
    if subject.reference is None:
        return None
    try:
        with torch.no_grad():
            return subject.call(exact(fresh(inputs)), subject.reference)
    except Exception:  # the reference refuses such inputs, by an error of its own
        return None


def _all_finite(point: Point) -> bool:
    return all(bool(out.isfinite().all()) for out in point.outputs)


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


def _unique(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The values of a tensor, where each element stands among them, and how many there are of each."""
    if t.dtype.is_complex:  # torch does not sort them
        return t.reshape(-1), torch.arange(t.numel(), device=t.device).reshape(t.shape), torch.ones(t.numel())
    return t.unique(return_inverse=True, return_counts=True)


def _claimed(grad: torch.Tensor, direction: torch.Tensor) -> float:
    """The slope that a gradient claims; 0 where its terms cancel but for their rounding."""
    found = slope(grad, direction)
    return 0.0 if abs(found) <= CANCELLED * slope(grad.abs(), direction.abs()) else found


def _most(point: Point, judging: Judging) -> int:
    sizes = [t.numel() for t in (*leaves(point.inputs), *point.outputs)]
    return judging.elements if sum(sizes) <= LARGE else ELEMENTS_OF_LARGE


def _size(t: torch.Tensor) -> str:
    return f"up to {float(t.abs().max()):.6g}"


def _at(judging: Judging) -> str:
    return f" for {judging.told}" if judging.told else ""


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t.detach().to(torch.complex128 if t.dtype.is_complex else torch.float64)


def _columns(chosen: list[tuple[torch.Tensor, torch.Tensor]], wanted: Outputs) -> tuple[Any, Any, Any]:
    outs, given = zip(*chosen, strict=True)
    return outs, wanted, given


def _repeats(subject: Subject) -> bool:
    with torch.random.fork_rng():
        first, second = (subject.call(subject.inputs()) for _ in range(2))
    return same_bits(first, second)


def _seeded(apply: Callable[..., Any]) -> Callable[..., Any]:
    def seeded(*arguments: Any) -> Any:
        with torch.random.fork_rng():
            torch.manual_seed(FORWARD_SEED)
            return apply(*arguments)

    return seeded
