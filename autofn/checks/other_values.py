"""Other valid values of the arguments that are not differentiated: floats, masks, indices, Python numbers, options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools.agreement import examine, need_judged, need_right_as_given
from .tools.point import Judging, steady
from .tools.variations import INTEGERS, is_float, mapped, replaced

Change = Callable[[torch.Tensor], torch.Tensor]

# Options of PyTorch's own losses.
REDUCTIONS = ("mean", "sum", "none")
# Of the findings of one rule: the first few say it all.
TOLD = 3


def other_values(subject: Subject) -> Iterator[Finding]:
    """The gradients stay right where an argument that is not differentiated has other values.

    Judged where the output stays right too: a hidden assumption that the forward does not need is the fault.
    """
    still = steady(subject)
    given = need_right_as_given(still)
    cases = list(_other_tensors(given))
    if not subject.compiled:  # each other number is another graph
        cases += _other_arguments(given, still.reference is not None)
    if not cases:
        raise NotImplementedError("every argument is differentiated")
    yield from _try(still, cases, "use the argument in backward as forward does, or refuse such values in forward")


def repeated_indices(subject: Subject) -> Iterator[Finding]:
    """The gradients stay right where integers repeat or come in another order.

    Negative ones are not tried: a kernel that does not count from the end may read, and write, outside its memory.
    """
    still = steady(subject)
    given = need_right_as_given(still)
    cases = list(_other_indices(given))
    if not cases:
        raise NotImplementedError("no argument holds indices")
    yield from _try(still, cases, "accumulate: index_add_ or scatter_add_, atomic additions in a kernel")


def _try(subject: Subject, cases: list[tuple[str, Inputs]], fix: str) -> Iterator[Finding]:
    judged, told = False, 0
    for words, inputs in cases:
        found = examine(subject, inputs, Judging(words, crashes=False, close=True, fix=fix))
        judged |= found is not None
        for each in found or ():
            if isinstance(each, Finding):
                yield each
                told += 1
        if told >= TOLD:
            return
    need_judged(judged, "other values are refused, or change what the forward means")


def _other_tensors(given: Inputs) -> Iterator[tuple[str, Inputs]]:
    for place, t in enumerate(given):
        if not isinstance(t, torch.Tensor) or t.requires_grad or not t.numel():
            continue
        for words, change in BOOLEANS if t.dtype == torch.bool else FLOATS if is_float(t) else ():
            yield f"{words} in input {place}", mapped(given, place, change)


def _other_arguments(given: Inputs, with_reference: bool) -> Iterator[tuple[str, Inputs]]:
    for place, argument in enumerate(given):
        for other in _others(argument, with_reference):
            yield f"{other!r} as input {place}", replaced(given, {place: other})


def _others(argument: Any, with_reference: bool) -> Iterator[Any]:
    """Other values of a Python argument. An integer may count iterations: only a reference knows what it means."""
    if isinstance(argument, bool):
        yield not argument
    elif isinstance(argument, int) and with_reference:
        yield from (other for other in (0, 1, 2, 3, -1) if other != argument)
    elif isinstance(argument, float):
        yield from (other for other in (0.0, argument / 3, argument * 3, 1.0) if other != argument)
        if with_reference:  # it accepts what makes sense
            yield -argument
    elif isinstance(argument, str) and argument in REDUCTIONS:
        yield from (other for other in REDUCTIONS if other != argument)


def _other_indices(given: Inputs) -> Iterator[tuple[str, Inputs]]:
    for place, t in enumerate(given):
        if not isinstance(t, torch.Tensor) or t.dtype not in INTEGERS or not t.numel() or _offsets(t, given):
            continue
        for words, change in INDICES:
            yield f"{words} in input {place}", mapped(given, place, change)


def _offsets(t: torch.Tensor, given: Inputs) -> bool:
    """Whether integers mark the ends of segments: 0, and on to the size of a dimension. They have no other values."""
    sizes = {size for each in given if isinstance(each, torch.Tensor) for size in each.shape}
    rising = t.dim() == 1 and bool((t.diff() >= 0).all())
    return rising and int(t[0]) == 0 and int(t[-1]) in sizes


def _drawn(t: torch.Tensor) -> torch.Tensor:
    index = torch.randint(t.numel(), (t.numel(),), generator=torch.Generator().manual_seed(9))
    return t.reshape(-1)[index.to(t.device)].reshape(t.shape)


def _equal(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1)[0].expand(t.shape)


def _backwards(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1).flip(0).reshape(t.shape)


def _in_order(t: torch.Tensor) -> torch.Tensor:
    return t.reshape(-1).sort().values.reshape(t.shape)


def _every_other(t: torch.Tensor) -> torch.Tensor:
    return (torch.arange(t.numel(), device=t.device) % 2 == 0).reshape(t.shape)


FLOATS: tuple[tuple[str, Change], ...] = (
    ("values twice as large", lambda t: t * 2),
    ("values a third as large", lambda t: t / 3),
    ("values larger by 1", lambda t: t + 1),
    ("the opposite signs", lambda t: -t),
    ("elements in another order", _backwards),
    ("unequal factors", lambda t: t * torch.linspace(0.5, 2, t.numel(), device=t.device).reshape(t.shape).to(t.dtype)),
    ("zeros", torch.zeros_like),
    ("ones", torch.ones_like),
)  # fmt: skip
BOOLEANS: tuple[tuple[str, Change], ...] = (
    ("True alone", torch.ones_like),
    ("False alone", torch.zeros_like),
    ("the opposite", torch.logical_not),
    ("every other True", _every_other),
)
INDICES: tuple[tuple[str, Change], ...] = (
    ("repeated values", _drawn),
    ("one value everywhere", _equal),
    ("values in reverse order", _backwards),
    ("sorted values", _in_order),
)

RULES = (
    Rule("other-values", "error", "right for other values of the arguments that are not differentiated", other_values),
    Rule("repeated-indices", "error", "right where indices repeat, or are in another order", repeated_indices),
)
