"""Inputs that need no gradient: the others keep theirs, and nobody works or saves for what nobody wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .rule import INFO, WARNING, Finding, Rule
from .subject import Subject, positions
from .tools import watching
from .tools.comparing import allowed, difference
from .tools.pure import seeded
from .tools.watching import Backward, Operation, Operations


def needs_input_grad(subject: Subject) -> Iterator[Finding]:
    """Each gradient is the same whichever other inputs require grad; the output is the same where none does."""
    whole = watching.need_a_backward(subject)
    raising = False
    for kept in _subsets(subject, list(whole)):
        when = f"where only input {' and '.join(map(str, kept))} requires grad"
        try:
            grads = watching.gradients(subject, watching.frozen(subject.inputs(), kept))
        except Exception as error:  # a Function may raise anything
            if not raising:
                message = f"it raises {type(error).__name__} {when}: {error}"
                yield Finding(message, fix="compute and save by ctx.needs_input_grad, with None for what is not needed")
            raising = True
            continue
        for place, grad in grads.items():
            yield from _differing(subject, grad, whole[place], f"gradient of input {place}", when)
    yield from _without_grad(subject)


def _subsets(subject: Subject, places: list[int]) -> list[tuple[int, ...]]:
    # A compiled graph is compiled anew for each.
    return [] if subject.compiled else watching.subsets(places)


def _differing(
    subject: Subject, got: torch.Tensor | None, want: torch.Tensor | None, where: str, when: str
) -> Iterator[Finding]:
    if want is None or (got is None and not want.any()):
        return
    fix = "ctx.needs_input_grad has one entry an argument of forward; save what each gradient reads"
    if got is None:
        yield Finding(f"it is None {when}", where, "None", "the gradient as where all inputs require grad", fix=fix)
        return
    found = difference(got, want, *allowed(subject, want.dtype, want))
    if found is not None:
        yield found.finding(f"it differs from the one where all inputs require grad, {when}", where, fix)


def _without_grad(subject: Subject) -> Iterator[Finding]:
    with torch.no_grad():
        want = watching.tensors(watching.outputs_of(subject, subject.writable(subject.inputs())))
        try:
            got = watching.tensors(
                watching.outputs_of(subject, subject.writable(watching.frozen(subject.inputs(), ())))
            )
        except Exception as error:  # a Function may raise anything
            yield Finding(f"it raises {type(error).__name__} where no input requires grad: {error}")
            return
    for place, (mine, right) in enumerate(zip(got, want, strict=True)):
        found = difference(mine, right, *allowed(subject, right.dtype, right))
        if found is not None:
            yield found.finding("it differs where no input requires grad", f"output {place}")


@dataclass(frozen=True)
class Work:
    """What backwards did: the operations of each call, and what was saved for it that is neither input nor output."""

    call: Backward
    operations: list[Operation]
    intermediates: list[torch.Tensor]

    @property
    def read(self) -> set[int]:
        """Addresses of the intermediates that an operation read."""
        return watching.storages(t for each in self.operations for t in each.arguments)

    @property
    def ready(self) -> set[int]:
        """Addresses of what a backward can hand on without computing anything."""
        return watching.storages((*self.call.grad_outputs, *self.call.noted.saved))

    @property
    def signatures(self) -> list[Any]:
        return [each.signature for each in self.operations]


@dataclass(frozen=True)
class _Noted:
    operations: Operations
    saved: tuple[Any, ...]


def frozen_work(subject: Subject) -> Iterator[Finding]:
    """With an input frozen the backward does less, and less is saved, where its gradient cost something."""
    if subject.compiled:
        raise NotImplementedError("compiled graphs do not show their operations")
    watching.functions(subject)
    watching.need_a_backward(subject)
    places = positions(subject.inputs())
    whole = _work(subject, places)
    told: set[str] = set()
    for place in (None, *(places if len(places) > 1 else ())):
        work = whole if place is None else _work(subject, [each for each in places if each != place])
        for finding in _wasted(whole, work):
            if finding.message + finding.where not in told:
                told.add(finding.message + finding.where)
                yield finding


def _work(subject: Subject, kept: Iterable[int]) -> list[Work]:
    """Each backward, in the order of the engine, when only the inputs kept require grad."""
    inputs = watching.frozen(subject.inputs(), kept)

    @contextmanager
    def recorded(node: Any, grad_outputs: tuple[Any, ...]) -> Iterator[_Noted]:
        with watching.operations() as operations:
            yield _Noted(operations, node.saved_tensors)

    with seeded():
        outputs = subject.call(inputs)
        ends = watching.storages((*watching.tensors(inputs), *watching.tensors(outputs)))
        with watching.backwards(recorded) as calls:
            weights = subject.grad_outputs(outputs)
            chosen = [(out, w) for out, w in zip(outputs, weights, strict=True) if w is not None]
            outs, given = zip(*chosen, strict=True)
            torch.autograd.grad(outs, [inputs[place] for place in kept], given, allow_unused=True)
    return [Work(call, call.noted.operations.seen, _inner(call.noted.saved, ends)) for call in calls]


def _inner(saved: Iterable[Any], ends: set[int]) -> list[torch.Tensor]:
    return [t for t in saved if isinstance(t, torch.Tensor) and not watching.storages([t]) & ends]


def _wasted(whole: list[Work], works: list[Work]) -> Iterator[Finding]:
    if [work.call.name for work in whole] != [work.call.name for work in works]:
        return
    for full, work in zip(whole, works, strict=True):
        for place, needed in enumerate(work.call.node.needs_input_grad):
            if needed or place >= len(work.call.grads):
                continue
            where = f"gradient {place} of {work.call.name}"
            if _is_computed(work, place):
                yield Finding("it is computed although nobody needs it", where, "a tensor", "None", fix=ASK)
            elif _is_computed(full, place) and _is_made_again(full, work, place):
                count = f"{len(work.operations)} operations"
                yield Finding("the backward does the same work where nobody needs it", where, count, fix=ASK)
            yield from _kept_for_nobody(full, work, place)


ASK = "compute it if ctx.needs_input_grad says so, and return None otherwise"


def _is_computed(work: Work, place: int) -> bool:
    """Whether a gradient costs work of its own: no other gradient shares its memory or comes of it.

    grad_output and saved tensors, handed on, cost none.
    """
    grads = work.call.grads
    grad = grads[place] if place < len(grads) else None
    own = watching.storages([grad]) - work.ready
    others = watching.storages(each for other, each in enumerate(grads) if other != place)
    shared = any(_reads(each, own) for each in work.operations)
    return bool(own - others) and not shared


def _reads(operation: Operation, memory: set[int]) -> bool:
    """Whether an operation makes something else of what lies in some memory."""
    return bool(watching.storages(operation.arguments) & memory) and not watching.storages(operation.results) & memory


def _is_made_again(full: Work, work: Work, place: int) -> bool:
    """Whether the operation that made a gradient, and nothing else, runs also where the gradient is not needed."""
    grad = watching.storages([full.call.grads[place]])
    makers = [each for each in full.operations if watching.storages(each.results) & grad]
    alone = all(len(each.results) == 1 for each in makers)
    return bool(makers) and alone and work.signatures == full.signatures


def _kept_for_nobody(full: Work, work: Work, place: int) -> Iterator[Finding]:
    """What is saved, and read only where a gradient is needed that is not. A saved input costs no new memory."""
    if len(full.call.noted.saved) != len(work.call.noted.saved) or not full.call.node.needs_input_grad[place]:
        return
    for position, (before, now) in enumerate(zip(full.call.noted.saved, work.call.noted.saved, strict=True)):
        if before is None or now is None or not watching.storages([before]) & full.read or _is_read(work, now):
            continue
        own = any(now is each for each in work.intermediates)
        yield Finding(
            f"saved tensor {position} is read only for gradient {place}, and kept where nobody needs that",
            f"saved tensor {position} of {work.call.name}",
            f"{now.numel() * now.element_size()} bytes",
            "0 bytes",
            fix=f"save it if ctx.needs_input_grad[{place}], else None",
            severity=WARNING if own else INFO,
        )


def _is_read(work: Work, saved: torch.Tensor) -> bool:
    given = watching.storages(grad for grad in work.call.grads if grad is not None)
    return bool(watching.storages([saved]) & (work.read | given))


def no_grad_saving(subject: Subject) -> Iterator[Finding]:
    """Where nothing requires grad the forward prepares nothing for a backward."""
    if subject.compiled:
        raise NotImplementedError("compiled graphs do not show their operations")
    # Such a forward gets no ctx, so it cannot know; what it makes for the backward is an output that nobody sees.
    asks = not any(map(watching.has_setup_context, watching.functions(subject)))
    inputs = subject.writable(watching.frozen(subject.inputs(), ()))
    with watching.marks() as marked, watching.operations() as operations:
        outputs = watching.tensors(watching.outputs_of(subject, inputs))
    given = watching.storages(watching.tensors(inputs))
    computed = watching.storages(t for each in operations.seen if each.computes for t in each.results)
    if watching.storages(outputs) - given - computed:
        raise NotImplementedError("the outputs come from code whose operations are not seen")
    wasted = computed - given - _used(operations.seen, outputs)
    # A statistic a row or a mask of bools is small beside what the call needs anyway.
    size = max((t.numel() * t.element_size() for t in (*watching.tensors(inputs), *outputs)), default=0)
    for t in marked.saved:
        address = watching.storages([t])
        if not address & wasted:
            continue
        wasted -= address
        shape = f"{t.dtype} of shape {list(t.shape)}"
        yield Finding(
            f"a tensor is computed only to be saved, although no input requires grad ({shape})",
            observed=f"{t.numel() * t.element_size()} bytes",
            expected="0 bytes",
            fix="compute it if any(ctx.needs_input_grad), or in the backward",
            severity=WARNING if asks and t.numel() * t.element_size() >= size else INFO,
        )


def _used(operations: list[Operation], outputs: Iterable[torch.Tensor]) -> set[int]:
    """The memory on which the outputs depend."""
    used = watching.storages(outputs)
    for each in reversed(operations):
        if watching.storages(each.results) & used:
            used |= watching.storages(each.arguments)
    return used


RULES = (
    Rule(
        "needs-input-grad", "error", "every gradient is the same whichever other inputs require grad", needs_input_grad
    ),
    Rule(
        "frozen-work",
        "warning",
        "no work is done and nothing saved for a gradient that nobody needs",
        frozen_work,
        written=True,
    ),
    Rule(
        "no-grad-saving",
        "warning",
        "nothing is prepared for a backward where no input requires grad",
        no_grad_saving,
        written=True,
    ),
)
