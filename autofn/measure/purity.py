"""Whether a backward leaves all as it found it, so that one graph may be replayed as if each time were the first."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial

import torch

from ..case import Case, Outputs, as_tuple
from ..observe.snapshot import Snapshot, bits

Gradients = Sequence[torch.Tensor | None]


def why_impure(case: Case) -> str | None:
    """What a backward changes, or None where it was shown pure.

    Three backwards of one graph must agree bit for bit, and leave inputs and grad_outputs as they were. On a second
    graph, whose saved tensors are watched, two more must leave these untouched too: values, by their bits, and version
    counters. What a backward keeps elsewhere, on `ctx` or in a global, shows in the gradients alone.
    """
    return _replays(case) or _saved(case)


def shown_pure(case: Case) -> None:
    """Raises ValueError, with the reason, unless the case was shown pure, now or at an earlier call."""
    known = _reasons.get(id(case))
    if known is None or known[0]() is not case:
        known = weakref.ref(case, partial(_forget, id(case))), why_impure(case)
        _reasons[id(case)] = known
    if known[1]:
        raise ValueError(f"{case.key}: one graph cannot be replayed: {known[1]}; use a fresh graph for each backward")


_reasons: dict[int, tuple[weakref.ref[Case], str | None]] = {}


def _forget(case_id: int, _: object) -> None:
    _reasons.pop(case_id, None)


def _replays(case: Case) -> str | None:
    outputs = case.forward()
    before = Snapshot.of(_given(case))
    first = _copied(_backward(case, outputs))
    for replay in ("second", "third"):
        try:
            again = _backward(case, outputs)
        except RuntimeError as error:
            return f"the {replay} backward of one graph raises {type(error).__name__}: {error}"
        different = _difference(first, again)
        if different:
            return f"the {replay} backward of one graph gives another {different}"
        changed = before.change()
        if changed:
            return changed
    return None


def _saved(case: Case) -> str | None:
    """What two backwards change of the saved tensors."""
    seen: dict[str, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        # Shares memory and version counter; an output itself, kept by its own graph, would be a cycle.
        kept = tensor.detach()
        seen[f"saved tensor {len(seen)}"] = kept
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed):
        outputs = as_tuple(case.apply(*case.inputs))
    before = Snapshot.of(seen)
    for _ in range(2):
        _backward(case, outputs)
        changed = before.change()
        if changed:
            return changed
    return None


def _given(case: Case) -> dict[str, torch.Tensor]:
    """What a backward is given, besides what it saved."""
    inputs = {f"input {i}": t for i, t in enumerate(case.inputs) if isinstance(t, torch.Tensor)}
    return inputs | {f"grad_output {i}": t for i, t in enumerate(case.grad_outputs)}


def _backward(case: Case, outputs: Outputs) -> Gradients:
    return torch.autograd.grad(outputs, case.leaves, case.grad_outputs, retain_graph=True, allow_unused=True)


def _copied(gradients: Gradients) -> Gradients:
    """A gradient may share memory with what a later backward writes."""
    return [None if grad is None else grad.clone() for grad in gradients]


def _difference(first: Gradients, again: Gradients) -> str:
    for position, (one, two) in enumerate(zip(first, again, strict=True)):
        if one is None or two is None:
            if one is not two:
                return f"gradient {position}, None in one of them"
        elif not torch.equal(bits(one), bits(two)):
            return f"gradient {position}"
    return ""
