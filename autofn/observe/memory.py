"""What a case keeps in memory, to the byte: from forward to backward, at its peaks, and when all is over."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import torch

from ..case import Case, Outputs
from .counters import Counter, Reading, counter
from .graph import nodes
from .saved import SavedTensor, ledger, saved_bytes, saved_new_bytes

# The first step compiles and allocates what is lazy; the second may still fill caches that the first one made.
WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Memory:
    """The bytes of one case.

    saved: what the saved-tensor hooks see, once a storage; saved_new: those that are neither inputs nor outputs.
    held: what the forward allocated and is still there after it, but for the outputs' storages: whatever holds it.
    hidden: held but not saved_new, so on `ctx`, in a closure, in a global. Not counted are the 8 bytes of each Python
        number in the formula, which PyTorch saves as a tensor behind the hooks; they are found in the graph.
        Below 0 where a tensor is saved that is older than the call and no input: the hooks cannot tell.
    peak: a phase's high-water mark above its start; "backward" starts with the graph and the outputs alive.
    leaked: what the step allocated and is there when outputs, gradients and graph are gone; cyclic of these are freed
        by the next garbage collection, for they hang in a reference cycle.
    """

    saved_bytes: int
    saved_new_bytes: int
    held_bytes: int
    hidden_bytes: int
    peak_bytes: dict[str, int]
    leaked_bytes: int
    cyclic_bytes: int
    ledger: list[SavedTensor]
    counted_by: str


def measure(case: Case, counted: Counter | None = None) -> Memory:
    """The memory of a case, on the device of the case. Meant for a process of its own, which is never timed.

    `counted` is by default the best that there is. An output must be new or share an input's storage.
    """
    counted = counted or counter(case.key.device)
    for _ in range(WARM_UP_STEPS):
        case.backward(case.forward())
    entries = ledger(case)
    (forward, backward, after, collected), outputs_bytes = _step(case, counted)
    held = forward.live - outputs_bytes
    hidden = held - saved_new_bytes(entries)
    return Memory(
        saved_bytes=saved_bytes(entries),
        saved_new_bytes=saved_new_bytes(entries),
        held_bytes=held,
        hidden_bytes=hidden - _number_bytes(case) if hidden else 0,
        peak_bytes={"forward": forward.peak, "backward": backward.peak - forward.live},
        leaked_bytes=after.live,
        cyclic_bytes=after.live - collected.live,
        ledger=entries,
        counted_by=counted.counted_by,
    )


def _step(case: Case, counted: Counter) -> tuple[list[Reading], int]:
    """Readings after the forward, the backward, the end of all, and a garbage collection; bytes of the new outputs."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    case.synchronise()
    counted.start()
    try:
        outputs = case.forward()
        counted.mark()
        outputs_bytes = _new_bytes(outputs, case.inputs)
        grads = case.backward(outputs)
        counted.mark()
        del outputs, grads
        counted.mark()
        gc.collect()
        counted.mark()
    finally:
        readings = counted.stop()
        if enabled:
            gc.enable()
    return readings, outputs_bytes


def _new_bytes(outputs: Outputs, inputs: tuple[Any, ...]) -> int:
    """Bytes of the outputs' storages, each once, without those that are an input's."""
    theirs = {t.untyped_storage().data_ptr() for t in inputs if isinstance(t, torch.Tensor)}
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in outputs}
    return sum(size for address, size in storages.items() if address not in theirs)


def _number_bytes(case: Case) -> int:
    """Bytes of the tensors that PyTorch made of the formula's Python numbers, and saved behind the hooks.

    Without dimensions, on the case's device, and not replaced by the hooks, as every other saved tensor is.
    """
    nothing = torch.empty(0)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, lambda packed: nothing):
        outputs = case.forward()
        return sum(
            value.untyped_storage().nbytes()
            for node in nodes(outputs)
            for name in dir(node)
            if name.startswith("_saved_") and isinstance(value := getattr(node, name), torch.Tensor)
            if value.dim() == 0 and value.device.type == case.key.device
        )
