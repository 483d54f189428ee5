"""What the forward keeps for the backward: through save_for_backward, or past it.

Only save_for_backward tells autograd of a tensor: it frees it when the backward has run, refuses it when it was changed
in the meantime, and lets hooks pack, offload or recompute it. Source:
https://docs.pytorch.org/docs/stable/notes/extending.html#how-to-use
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from ..observe import memory
from ..observe.counters import counter
from .rule import WARNING, Finding, Rule
from .subject import Subject
from .tools.alive import only_new_objects
from .tools.holding import (
    SAVE,
    Kept,
    is_generator_state,
    kept_on,
    need_a_function,
    own_nodes,
    owner,
    place_of,
)
from .tools.passes import (
    Pass,
    case_of,
    forward,
    hooks_allowed,
    keeping_the_generators,
    named_tensors,
    working,
)


def ctx_tensor(subject: Subject) -> Iterator[Finding]:
    """What a ctx keeps as an attribute, in a container, a closure or an object, that is memory of a tensor."""
    working(subject)
    with keeping_the_generators():
        first, second = forward(subject), forward(subject)
        nodes = own_nodes(second)
        older = {kept.address for node in own_nodes(first) for kept in kept_on(node, first.inputs)}
        reported: set[int] = set()
        for node in nodes:
            for kept in kept_on(node, second.inputs):
                if kept.address not in reported and not is_generator_state(kept.value):
                    reported.add(kept.address)
                    yield from _judged(kept, second, constant=kept.address in older)
    if not nodes:
        raise NotImplementedError("no torch.autograd.Function written in Python makes the output")


def _judged(kept: Kept, one: Pass, constant: bool) -> Iterator[Finding]:
    whose = owner(kept.address, one)
    if whose:
        yield Finding(
            f"{whose} is kept as {kept.path}, past save_for_backward: a later change of it goes unseen, and hooks that "
            "offload or recompute saved tensors do not reach it",
            kept.path,
            str(kept),
            "no tensor on ctx",
            fix=SAVE,
        )
    elif constant:
        yield Finding(
            f"a tensor older than the call is kept as {kept.path}: where it changes, the backward uses the new value",
            kept.path,
            str(kept),
            "no tensor on ctx",
            fix=SAVE,
            severity=WARNING,
        )
    elif isinstance(kept.value, torch.Tensor) or kept.nbytes >= _largest(one):
        small = kept.nbytes <= 16 or not isinstance(kept.value, torch.Tensor)
        yield Finding(
            f"a tensor is kept as {kept.path}, past save_for_backward: the backward does not free it, and hooks that "
            "offload or recompute saved tensors do not see it",
            kept.path,
            str(kept),
            "no tensor on ctx",
            fix=SAVE,
            severity=WARNING if small else "",
        )


def _largest(one: Pass) -> int:
    return max((place_of(t)[1] for _, t in (*named_tensors(one.inputs), *named_tensors(one.outputs))), default=0)


def hidden_state(subject: Subject) -> Iterator[Finding]:
    """Bytes that the forward leaves allocated and neither outputs nor saved tensors nor attributes of ctx explain."""
    working(subject)
    with keeping_the_generators(), only_new_objects():
        one = forward(subject)
        need_a_function(one)
        known = {kept.address: kept.nbytes for node in own_nodes(one) for kept in kept_on(node, one.inputs)}
        with hooks_allowed():
            hidden = [memory.measure(case_of(subject, one), counter(subject.device)).hidden_bytes for _ in range(2)]
    unexplained = min(hidden) - sum(nbytes for address, nbytes in known.items() if not owner(address, one))
    if unexplained > 0:
        yield Finding(
            f"{unexplained} bytes stay allocated from the forward to the backward that no saved-tensor hook sees and "
            "no attribute of ctx explains: they are in a closure, a global, a class attribute or in C++",
            observed=f"{unexplained} bytes",
            expected="0 bytes",
            fix=f"{SAVE}; in C++, ctx->save_for_backward",
        )


def saved_view(subject: Subject) -> Iterator[Finding]:
    """Storages made by the forward of which the graph saves a small part: they stay alive whole."""
    working(subject)
    saved: list[torch.Tensor] = []
    with hooks_allowed(), keeping_the_generators(), saved_tensors_hooks(saved.append, lambda packed: packed):
        one = forward(subject)
    need_a_function(one)
    whole: dict[int, int] = {}
    needed: dict[int, dict[tuple[Any, ...], int]] = {}
    for t in saved:
        if t.layout is torch.strided and t.numel() and not owner(t.untyped_storage().data_ptr(), one):
            address = t.untyped_storage().data_ptr()
            whole[address] = t.untyped_storage().nbytes()
            part = (t.storage_offset(), *t.shape, *t.stride())
            needed.setdefault(address, {})[part] = t.numel() * t.element_size()
    for address, nbytes in whole.items():
        parts = sum(needed[address].values())
        if nbytes > 2 * parts:
            yield Finding(
                f"a saved view of {parts} bytes keeps the {nbytes} bytes of its whole storage alive until the backward",
                "saved tensors",
                f"{nbytes} bytes",
                f"{parts} bytes",
                fix="save a copy of the part: ctx.save_for_backward(part.clone())",
            )
            return


RULES = (
    Rule("ctx-tensor", "error", "tensors are kept by save_for_backward, not on ctx", ctx_tensor, written=True),
    Rule("hidden-state", "error", "nothing is kept for the backward but saved tensors", hidden_state, written=True),
    Rule("saved-view", "warning", "a saved part does not keep a large whole alive", saved_view, written=True),
)
