"""What the forward keeps for the backward: through save_for_backward, or past it.

Only save_for_backward tells autograd of a tensor: it frees it when the backward has run, refuses it when it was changed
in the meantime, and lets hooks pack, offload or recompute it. Source:
https://docs.pytorch.org/docs/stable/notes/extending.html#how-to-use
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from ..case import Case
from ..measure import memory
from ..measure.counters import counter
from ..records import Key
from ..spec import dtype_name
from .rule import WARNING, Finding, Rule
from .subject import Inputs, Subject, custom_nodes, differentiable, leaves
from .tools.alive import only_new_objects
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

SAVE = "hand it to ctx.save_for_backward(...) and take it from ctx.saved_tensors"
TORCH = str(Path(torch.__file__).parent)
# A list in a list in a dict, and what a closure or a small object holds, are looked into; no further.
DEPTH = 6


@dataclass(frozen=True)
class Kept:
    """Something with memory that a ctx holds by itself, and the attribute that leads to it: "ctx.cache[0]"."""

    path: str
    value: Any
    address: int
    nbytes: int

    def __str__(self) -> str:
        shape = list(getattr(self.value, "shape", (self.nbytes,)))
        return f"{type(self.value).__name__} of shape {shape} ({self.nbytes} bytes)"


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
    owner = _owner(kept.address, one)
    if owner:
        yield Finding(
            f"{owner} is kept as {kept.path}, past save_for_backward: a later change of it goes unseen, and hooks that "
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


def need_a_function(one: Pass) -> None:
    """Raises NotImplementedError where only PyTorch's own operations make the outputs."""
    written_in_cpp = any(type(node).__name__ == "CppFunction" for node in nodes_of(one.outputs))
    if not written_in_cpp and not own_nodes(one):
        raise NotImplementedError("no torch.autograd.Function makes the output")


def nodes_of(outputs: tuple[torch.Tensor, ...]) -> Iterator[Any]:
    """Every node of the graph that made the outputs, once."""
    seen: set[Any] = set()
    waiting = [out.grad_fn for out in outputs]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
            yield node


def own_nodes(one: Pass) -> list[Any]:
    """The nodes of the Functions that are the author's, not of those that PyTorch makes for itself."""
    return [node for node in custom_nodes(one.outputs) if not _of_torch(type(node))]


def _of_torch(node: type) -> bool:
    owner = getattr(node, "_forward_cls", None)
    generated = node.__name__.startswith("GeneratedBackwardFor")  # torch.library's, whose ctx its author fills
    return not generated and str(getattr(owner, "__module__", "")).split(".")[0] == "torch"


def kept_on(node: Any, inputs: Inputs) -> Iterator[Kept]:
    """What a ctx holds by itself. Objects and callables that are arguments are the caller's, and not looked into."""
    callers = {id(value) for value in inputs if not isinstance(value, (torch.Tensor, list, tuple, dict))}
    yield from _walk(vars(node), "ctx", callers | {id(node)}, DEPTH)


def _walk(value: Any, path: str, seen: set[int], depth: int) -> Iterator[Kept]:
    if id(value) in seen or depth < 0:
        return
    seen.add(id(value))
    memory_of = _memory(value)
    if memory_of is not None:
        yield Kept(path, value, *memory_of)
        return
    for name, item in _held(value):
        yield from _walk(item, f"{path}{name}", seen, depth - 1)


def _memory(value: Any) -> tuple[int, int] | None:
    """(address, bytes) of a tensor, a storage or a NumPy array; None for others."""
    if isinstance(value, torch.Tensor):
        return _place(value) if value.numel() else None
    if isinstance(value, torch.UntypedStorage):
        return value.data_ptr(), value.nbytes()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype != object:
        return value.__array_interface__["data"][0], value.nbytes
    return None


def is_generator_state(value: Any) -> bool:
    """Whether it is what torch.get_rng_state gives: plain data, although PyTorch hands it out as a tensor."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.uint8:
        return False
    return value.shape == torch.get_rng_state().shape


def _place(t: torch.Tensor) -> tuple[int, int]:
    """A tensor that has no memory of its own (sparse, a subclass) is known by itself. An expanded one repeats its."""
    shown = t.numel() * t.element_size()
    try:
        address, whole = t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):
        return id(t), shown
    return (address, min(shown, whole)) if address else (id(t), shown)


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value refers to, each with what is written after the value to get there."""
    if isinstance(value, dict):
        dotted = all(isinstance(key, str) and key.isidentifier() for key in value)
        yield from ((f".{key}" if dotted else f"[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        yield from ((f"[{place}]", item) for place, item in enumerate(value))
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        cells = value.__closure__ or ()
        yield from ((f" ({name} in the closure)", _content(cell)) for name, cell in zip(names, cells, strict=True))
        yield from ((f" (default {place})", item) for place, item in enumerate(value.__defaults__ or ()))
    elif isinstance(value, functools.partial):
        yield from ((f".{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif _a_small_object(value):
        yield from ((f".{name}", item) for name, item in vars(value).items())
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from ((f".{name}", getattr(value, name)) for name in slots if hasattr(value, name))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _a_small_object(value: Any) -> bool:
    foreign = isinstance(value, (type, types.ModuleType, torch.nn.Module))
    return not foreign and hasattr(value, "__dict__") and type(value).__module__.split(".")[0] != "torch"


def _owner(address: int, one: Pass) -> str:
    """ "input 0" or "output 1", where the memory is theirs."""
    for name, t in (*named_tensors(one.inputs), *named_tensors(one.outputs, "output")):
        start, nbytes = _place(t)
        whole = t.untyped_storage().nbytes() if t.layout is torch.strided else nbytes
        if start <= address < start + max(whole, 1):
            return name
    return ""


def _largest(one: Pass) -> int:
    return max((_place(t)[1] for _, t in (*named_tensors(one.inputs), *named_tensors(one.outputs))), default=0)


def hidden_state(subject: Subject) -> Iterator[Finding]:
    """Bytes that the forward leaves allocated and neither outputs nor saved tensors nor attributes of ctx explain."""
    working(subject)
    with keeping_the_generators(), only_new_objects():
        one = forward(subject)
        need_a_function(one)
        known = {kept.address: kept.nbytes for node in own_nodes(one) for kept in kept_on(node, one.inputs)}
        with hooks_allowed():
            hidden = [memory.measure(_case(subject, one), counter(subject.device)).hidden_bytes for _ in range(2)]
    unexplained = min(hidden) - sum(nbytes for address, nbytes in known.items() if not _owner(address, one))
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
        if t.layout is torch.strided and t.numel() and not _owner(t.untyped_storage().data_ptr(), one):
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


def _case(subject: Subject, one: Pass) -> Case:
    """The subject as the harness measures it: what has no gradient is no output."""

    def apply(*inputs: Any) -> tuple[torch.Tensor, ...]:
        return tuple(out for out in subject.call(inputs) if differentiable(out))

    key = Key(subject.who, "checked", subject.workload, dtype_name(subject.dtype), subject.device)
    return Case(key, apply, one.inputs, tuple(w for w in one.weights if w is not None))


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


def tensors_of_callers(inputs: Inputs) -> list[torch.Tensor]:
    """What arguments that are no tensors bring along: parameters of a module, what a function has captured."""
    found: list[torch.Tensor] = []
    for value in inputs:
        if isinstance(value, torch.nn.Module):
            found += [*value.parameters(), *value.buffers()]
        elif not isinstance(value, (torch.Tensor, list, tuple, dict)):
            found += [kept.value for kept in _walk(value, "", set(), DEPTH) if isinstance(kept.value, torch.Tensor)]
    return found


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
    Rule("ctx-tensor", "error", "tensors are kept by save_for_backward, not on ctx", ctx_tensor, written=True),
    Rule("hidden-state", "error", "nothing is kept for the backward but saved tensors", hidden_state, written=True),
    Rule("saved-view", "warning", "a saved part does not keep a large whole alive", saved_view, written=True),
    Rule("version-check", "error", "a change of what the backward needs is refused", version_check, written=True),
    Rule("unpacked-twice", "warning", "a backward unpacks its saved tensors once", unpacked_twice, written=True),
    Rule("saved-hooks", "error", "saved tensors may be packed, offloaded or recomputed", saved_hooks),
)
