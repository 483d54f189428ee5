"""The same values in another memory layout give the same results: for every input, and for grad_output.

What arrives as grad_output is laid out by whatever follows: after `torch.cat` it is a slice of wider rows, after a
transpose it is transposed, after `.sum()` one number with stride 0. No caller can choose it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from .rule import ERROR, INFO, WARNING, Finding, Rule
from .subject import Inputs, Subject
from .tools.attempt import Grads, Raised, Result, attempt, copies, disagreement, weights_of
from .tools.comparing import same_bits
from .tools.strides import Lay, Layout, layouts_of, strided

# A wrong layout puts whole elements elsewhere; another order of summation, also in float32, is far below.
RTOL = 1e-4
RTOLS = {torch.float16: 2e-2, torch.bfloat16: 1e-1}


def grad_output_layout(subject: Subject) -> Iterator[Finding]:
    """Each grad_output in every layout, alone and all together, against a packed copy of the same values."""
    _need_eager(subject)
    inputs = subject.inputs()
    weights = weights_of(subject, inputs)
    if weights is None:
        raise NotImplementedError("the forward raises")
    places = [place for place, w in enumerate(weights) if w is not None]
    usual = _steady(subject, inputs, weights)
    groups: dict[str, tuple[int, ...]] = {f"grad_output {place}": (place,) for place in places}
    if len(places) > 1:
        groups["all grad_outputs"] = tuple(places)
    found: set[str] = set()
    for who, chosen in groups.items():
        if not found or len(chosen) == 1:
            for finding in _of_grad_output(subject, inputs, (weights, usual), who, chosen):
                found.add(who)
                yield finding


def _of_grad_output(
    subject: Subject, inputs: Inputs, normal: tuple[Grads, Result], who: str, chosen: tuple[int, ...]
) -> Iterator[Finding]:
    """normal: the grad_outputs as they are else, and what comes of them."""
    weights, usual = normal
    failures = []
    for layout in layouts_of([w for place in chosen if (w := weights[place]) is not None]):
        settled = _changed(weights, chosen, layout.settle)
        laid = _changed(settled, chosen, layout.lay)
        want = attempt(subject, copies(inputs), _packed(settled))
        if isinstance(want, Result):
            failures += _failure(layout, attempt(subject, copies(inputs), laid), want, usual)
    yield from _told(who, failures, "call grad_output.contiguous() before its memory is read, or use its strides")


def input_layout(subject: Subject) -> Iterator[Finding]:
    """Each tensor among the inputs in every layout, alone and all together, against packed copies."""
    _need_eager(subject)
    if subject.intent.random:
        raise NotImplementedError("the Function is random: what is drawn may follow the memory layout")
    inputs = subject.inputs()
    tensors = [place for place, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.layout == torch.strided]
    weights = weights_of(subject, inputs)
    if weights is None:
        raise NotImplementedError("the forward raises")
    usual = _steady(subject, inputs, weights)
    other = attempt(subject, copies(inputs), _packed(weights), seed=1)
    if isinstance(other, Result) and disagreement(other, usual, _rtol(usual)) is not None:
        raise NotImplementedError("the results depend on the seed: what is drawn may follow the memory layout")
    groups: dict[str, tuple[int, ...]] = {f"input {place}": (place,) for place in tensors}
    if len(tensors) > 1:
        groups["all inputs"] = tuple(tensors)
    found: set[str] = set()
    for who, chosen in groups.items():
        if not found or len(chosen) == 1:
            for finding in _of_input(subject, (inputs, usual), who, chosen):
                found.add(who)
                yield finding


def _of_input(subject: Subject, normal: tuple[Inputs, Result], who: str, chosen: tuple[int, ...]) -> Iterator[Finding]:
    """normal: the arguments as they are else, and what comes of them."""
    inputs, usual = normal
    failures = []
    for layout in layouts_of([inputs[place] for place in chosen]):
        settled = _arranged(inputs, chosen, layout.settle)
        laid = _arranged(settled, chosen, layout.lay)
        used = copies(settled)
        want = attempt(subject, used)
        if not isinstance(want, Result) or not _layout_free(subject, settled, laid):
            continue
        if _overlaps(laid) and not same_bits(_tensors(used), _tensors(settled)):
            continue  # it writes to its input, which no memory that is shared between elements can take
        failed = _failure(layout, attempt(subject, laid), want, usual)
        if failed and not (_overlaps(laid) and _ambiguous(subject, settled, chosen, want)):
            failures += failed
    yield from _told(who, failures, "call .contiguous() on the input before its memory is read, or use its strides")


def _layout_free(subject: Subject, settled: Inputs, laid: Inputs) -> bool:
    """Whether PyTorch's own formula takes that layout, with the same result; true where there is no reference."""
    if subject.reference is None:
        return True
    packed, strided = (attempt(subject, each, apply=subject.reference) for each in (copies(settled), _as_laid(laid)))
    return (
        isinstance(packed, Result)
        and isinstance(strided, Result)
        and disagreement(strided, packed, _rtol(packed)) is None
    )


def _ambiguous(subject: Subject, settled: Inputs, chosen: tuple[int, ...], want: Result) -> bool:
    """Whether equal values in a strided slice, where nothing is shared, give another result too.

    What stride 0 makes equal are ties, which may be broken either way.
    """
    got = attempt(subject, _arranged(settled, chosen, strided))
    return isinstance(got, Result) and disagreement(got, want, _rtol(want)) is not None


@dataclass(frozen=True)
class _Failure:
    """layout: its name. kind: "wrong", "crash", or "refusal" where the forward says that it wants packed memory."""

    layout: str
    kind: str
    told: str
    finding: Finding | None = None


def _failure(layout: Layout, got: Result | Raised, want: Result, usual: Result) -> list[_Failure]:
    if isinstance(got, Raised):
        kind = "refusal" if _refuses(got) else "crash"
        return [_Failure(layout.name, kind, f"{got} in the {got.stage}")]
    found = disagreement(got, want, _rtol(want), usual)
    if found is None:
        return []
    name, worst = found
    return [_Failure(layout.name, "wrong", name, worst.finding(name, name))]


def _told(who: str, failures: list[_Failure], fix: str) -> Iterator[Finding]:
    """One finding for each kind of failure, with the layouts that show it and the first case in full."""
    for kind in ("wrong", "crash", "refusal"):
        those = [each for each in failures if each.kind == kind]
        if not those:
            continue
        first, names = those[0], ", ".join(each.layout for each in those)
        if kind == "wrong" and first.finding is not None:
            seen = first.finding
            message = (
                f"silently wrong where it is {names}, right for a packed copy of the same values; {first.layout}: "
                f"{seen.message}"
            )
            yield Finding(message, who, seen.observed, seen.expected, seen.error, fix, ERROR)
        elif kind == "crash":
            message = f"raises where it is {names}, works for a packed copy of the same values"
            # In the forward it is seen at once, and before training has begun.
            in_forward = all(each.told.endswith("in the forward") for each in those)
            yield Finding(message, who, first.told, fix=fix, severity=WARNING if in_forward else ERROR)
        else:
            yield Finding(f"refused where it is {names}", who, first.told, fix=fix, severity=INFO)


def _refuses(raised: Raised) -> bool:
    """Whether the forward itself asks for another layout, and it is not just PyTorch's `view` that stumbled."""
    frames = traceback.extract_tb(raised.error.__traceback__)
    told = f"{raised.error} {frames[-1].line if frames else ''}".lower()
    stumbled = "view size is not compatible" in told or "single memory location" in told
    return (
        raised.stage == "forward"
        and not stumbled
        and any(word in told for word in ("contiguous", "stride", "layout", "memory format", "packed"))
    )


def _need_eager(subject: Subject) -> None:
    if subject.compiled:
        raise NotImplementedError("compiled anew for each layout: the graphs themselves are guarded on the strides")


def _steady(subject: Subject, inputs: Inputs, weights: Grads) -> Result:
    """What comes out for packed memory. Raises NotImplementedError unless two such calls work and agree."""
    first, second = (attempt(subject, copies(inputs), _packed(weights)) for _ in range(2))
    for each in (first, second):
        if isinstance(each, Raised):
            raise NotImplementedError(f"the {each.stage} raises for packed memory too: {each}")
    assert isinstance(first, Result)
    assert isinstance(second, Result)
    if disagreement(second, first, _rtol(first)) is not None:
        raise NotImplementedError("two calls with equal arguments differ: layouts cannot be told from chance")
    return first


def _rtol(result: Result) -> float:
    """By the coarsest dtype among the results."""
    return max((RTOLS.get(t.dtype, RTOL) for _, t in result.named() if isinstance(t, torch.Tensor)), default=RTOL)


def _packed(weights: Grads) -> Grads:
    return tuple(None if w is None else w.clone(memory_format=torch.contiguous_format) for w in weights)


def _changed(weights: Grads, chosen: tuple[int, ...], change: Lay) -> Grads:
    """The grad_outputs with the chosen ones laid out otherwise, and fresh copies of the others."""
    fresh = _packed(weights)
    return tuple(_or(change, w) if place in chosen and w is not None else w for place, w in enumerate(fresh))


def _arranged(inputs: Inputs, chosen: tuple[int, ...], change: Lay) -> Inputs:
    """The arguments with the chosen ones laid out otherwise, as leaves, and fresh copies of the others."""
    return tuple(
        _or(change, t.detach()).requires_grad_(t.requires_grad) if place in chosen else t
        for place, t in enumerate(copies(inputs))
    )


def _tensors(inputs: Inputs) -> list[torch.Tensor]:
    return [t for t in inputs if isinstance(t, torch.Tensor)]


def _overlaps(inputs: Inputs) -> bool:
    """Whether elements of an argument share memory."""
    return any(
        stride == 0 and size > 1 for t in _tensors(inputs) for size, stride in zip(t.shape, t.stride(), strict=True)
    )


def _as_laid(inputs: Inputs) -> Inputs:
    """Leaves of the same memory, for a call that writes to none of it."""
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs)


def _or(change: Lay, t: torch.Tensor) -> torch.Tensor:
    changed = change(t)
    return t if changed is None else changed


RULES = (
    Rule(
        "grad-output-layout",
        ERROR,
        "the gradient does not depend on the memory layout of grad_output",
        grad_output_layout,
    ),
    Rule("input-layout", ERROR, "the results do not depend on the memory layout of the inputs", input_layout),
)
