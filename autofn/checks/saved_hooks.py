"""What happens to saved tensors between forward and backward: changed in place, unpacked, packed and recomputed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch.autograd.graph import saved_tensors_hooks

from .rule import WARNING, Finding, Rule
from .subject import Inputs, Subject, leaves
from .tools.holding import (
    SAVE,
    tensors_of_callers,
)
from .tools.passes import (
    SEED,
    Pass,
    Result,
    compared,
    copied,
    forward,
    hooks_allowed,
    keeping_the_generators,
    named_tensors,
    refuses_hooks,
    reseed,
    working,
)

TORCH = str(Path(torch.__file__).parent)


def version_check(subject: Subject) -> Iterator[Finding]:
    """An input or an output is changed in place after the forward: the backward must refuse, or not depend on it."""
    want = working(subject)
    with keeping_the_generators():
        one = forward(subject)
        targets = [name for name, _ in _targets(one)]
        for name in targets:
            found = list(_unseen(subject, name, want))
            if found and not _reference_is_as_blind(subject, name):
                yield from found


def _targets(one: Pass) -> list[tuple[str, torch.Tensor]]:
    """Inputs and outputs that may be changed; not the parameters of a module that is an argument too and reads them."""
    both = (*named_tensors(one.inputs), *named_tensors(one.outputs, "output"))
    theirs = {id(t) for t in tensors_of_callers(one.inputs)}
    return [(name, t) for name, t in both if t.numel() and id(t) not in theirs]


def _unseen(subject: Subject, name: str, want: Result) -> Iterator[Finding]:
    one = forward(subject)
    outputs = copied(one.outputs)
    target = dict(_targets(one)).get(name)
    if target is None or not disturb(target):
        return
    try:
        got = Result(outputs, copied(one.backward()))  # type: ignore[arg-type]
    except Exception:  # it is not silent: whatever it raises
        return
    yield from (
        replace(each, message=f"{name} was changed in place after the forward, and {each.message}")
        for each in compared(
            subject,
            got,
            want,
            "the backward used the new values without a word",
            f"save it with ctx.save_for_backward, which notices the change; not on ctx, not by .data ({name})",
        )
    )


def _reference_is_as_blind(subject: Subject, name: str) -> bool:
    """Whether PyTorch's own operations do the same; then it is how the formula is meant."""
    if subject.reference is None:
        return False
    formula = replace(subject, apply=subject.reference)
    try:
        return bool(list(_unseen(formula, name, working(formula))))
    except NotImplementedError:
        return False


def disturb(t: torch.Tensor) -> bool:
    """Writes other values of the same kind into a tensor, as a later in-place operation would. False where refused."""
    try:
        with torch.no_grad():
            if t.is_floating_point() or t.is_complex():
                t.mul_(-1.5).add_(0.25)
            else:
                t.copy_(t.reshape(-1).roll(1).reshape(t.shape))
    except RuntimeError:  # an expanded tensor, or a view that must not be written to
        return False
    return True


def unpacked_twice(subject: Subject) -> Iterator[Finding]:
    """How often the author's code unpacks one saved tensor in one backward, by hooks that count."""
    working(subject)
    counts: dict[int, int] = {}
    shapes: list[tuple[int, ...]] = []
    packed: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> int:
        packed.append(t.detach())
        shapes.append(tuple(t.shape))
        return len(packed) - 1

    def unpack(place: int) -> torch.Tensor:
        if not sys._getframe(1).f_code.co_filename.startswith(TORCH):
            counts[place] = counts.get(place, 0) + 1
        return packed[place]

    with hooks_allowed(), keeping_the_generators(), saved_tensors_hooks(pack, unpack):
        forward(subject).backward()
    often = max(counts.values(), default=0)
    if often > 1:
        repeated = [place for place, count in counts.items() if count == often]
        yield Finding(
            f"one backward unpacks {len(repeated)} saved tensor{'s' * (len(repeated) != 1)} {often} times: each read "
            "of ctx.saved_tensors unpacks them all, which copies or decompresses where hooks offload them",
            f"saved tensor of shape {list(shapes[repeated[0]])}",
            f"{often} times",
            "once",
            fix="read ctx.saved_tensors once: a, b = ctx.saved_tensors",
        )


Packing = Callable[[torch.Tensor], torch.Tensor]


def saved_hooks(subject: Subject) -> Iterator[Finding]:
    """The gradients under hooks that move saved tensors, where what was there is overwritten, and recomputed."""
    want = working(subject)
    with keeping_the_generators():
        moved = list(_under_hooks(subject, torch.clone, want, "the saved tensors are moved to other memory"))
        yield from moved
        if not moved:
            yield from _contiguous(subject, want)
            yield from _overwritten(subject, want)
        yield from _offloaded(subject, want)
        yield from _recomputed(subject, want)


def _under_hooks(subject: Subject, pack: Packing, want: Result, how: str, name: str = "") -> Iterator[Finding]:
    """name: the input or output that is overwritten once the hooks have their copies."""
    message = f"another gradient where {how}"
    fix = f"use in the backward only what ctx.saved_tensors gives: {SAVE}"
    try:
        with saved_tensors_hooks(lambda t: pack(t.detach()), lambda packed: packed):
            one = forward(subject)
            outputs = copied(one.outputs)
        if name and not disturb(dict(_targets(one))[name]):
            return
        got = Result(outputs, copied(one.backward()))  # type: ignore[arg-type]
    except Exception as error:  # a Function may raise anything; of a tensor that was overwritten it should
        if refuses_hooks(error):
            raise NotImplementedError(_first_line(error)) from error
        if not name:
            yield Finding(f"raises {type(error).__name__} where {how}: {_first_line(error)}", fix=fix)
        return
    yield from compared(subject, got, want, message, fix)


def _contiguous(subject: Subject, want: Result) -> Iterator[Finding]:
    """As save_on_cpu with pinned memory gives them back: contiguous, whatever they were."""
    packed = "the saved tensors come back contiguous, as from save_on_cpu(pin_memory=True)"
    yield from (
        replace(each, severity=WARNING, fix="let the backward read the strides of what it saved")
        for each in _under_hooks(subject, lambda t: t.clone(memory_format=torch.contiguous_format), want, packed)
    )


def _overwritten(subject: Subject, want: Result) -> Iterator[Finding]:
    """As a ring of buffers does that streams the weights of the next layer into this one's."""
    for name, _ in _targets(forward(subject)):
        how = f"{name} was overwritten after hooks had packed the saved tensors (offloading, streamed weights)"
        yield from _under_hooks(subject, torch.clone, want, how, name)


def _offloaded(subject: Subject, want: Result) -> Iterator[Finding]:
    try:
        with torch.autograd.graph.save_on_cpu():
            one = forward(subject)
            outputs = copied(one.outputs)
        got = Result(outputs, copied(one.backward()))  # type: ignore[arg-type]
    except Exception as error:  # a Function may raise anything
        yield Finding(f"raises {type(error).__name__} under torch.autograd.graph.save_on_cpu: {error}", fix=SAVE)
        return
    yield from compared(subject, got, want, "another gradient under torch.autograd.graph.save_on_cpu", SAVE)


def _recomputed(subject: Subject, want: Result) -> Iterator[Finding]:
    """Under activation checkpointing, both ways."""
    from torch.utils.checkpoint import checkpoint

    for reentrant in (False, True):
        how = f"torch.utils.checkpoint(use_reentrant={reentrant})"
        inputs = subject.inputs()
        if reentrant and any(t.requires_grad for t in _nested(inputs)):
            continue  # it sees only what is an argument itself
        fix = "a forward must do the same when it is run again: no state of its own, the same tensors saved"
        try:
            reseed(SEED)
            outputs = checkpoint(lambda *given: subject.call(given), *inputs, use_reentrant=reentrant)
            one = Pass(inputs, outputs, subject.grad_outputs(outputs))
            got = Result(copied(outputs), _accumulated(one))  # type: ignore[arg-type]
        except Exception as error:  # a Function may raise anything
            yield Finding(f"raises {type(error).__name__} under {how}: {_first_line(error)}", fix=fix)
            continue
        yield from compared(subject, got, want, f"another gradient under {how}", fix)


def _nested(inputs: Inputs) -> list[torch.Tensor]:
    held = [t for value in inputs if not isinstance(value, torch.Tensor) for _, t in named_tensors(value)]
    return held + tensors_of_callers(inputs)


def _accumulated(one: Pass) -> tuple[torch.Tensor | None, ...]:
    """The gradients by .backward(), which re-entrant checkpointing needs."""
    chosen = [(out, w) for out, w in zip(one.outputs, one.weights, strict=True) if out.requires_grad and w is not None]
    outs, weights = zip(*chosen, strict=True)
    torch.autograd.backward(outs, weights)
    return tuple(leaf.grad for leaf in leaves(one.inputs))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


RULES = (
    Rule("version-check", "error", "a change of what the backward needs is refused", version_check, written=True),
    Rule("unpacked-twice", "warning", "a backward unpacks its saved tensors once", unpacked_twice, written=True),
    Rule("saved-hooks", "error", "saved tensors may be packed, offloaded or recomputed", saved_hooks),
)
