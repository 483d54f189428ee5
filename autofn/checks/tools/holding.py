"""What a graph's nodes hold: the memory that a ctx keeps by itself, and whose it is."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..subject import Inputs, custom_nodes
from .passes import Pass, named_tensors

# What to do about memory that is kept by another way.
SAVE = "hand it to ctx.save_for_backward(...) and take it from ctx.saved_tensors"
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
        return place_of(value) if value.numel() else None
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


def place_of(t: torch.Tensor) -> tuple[int, int]:
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


def owner(address: int, one: Pass) -> str:
    """ "input 0" or "output 1", where the memory is theirs."""
    for name, t in (*named_tensors(one.inputs), *named_tensors(one.outputs, "output")):
        start, nbytes = place_of(t)
        whole = t.untyped_storage().nbytes() if t.layout is torch.strided else nbytes
        if start <= address < start + max(whole, 1):
            return name
    return ""


def tensors_of_callers(inputs: Inputs) -> list[torch.Tensor]:
    """What arguments that are no tensors bring along: parameters of a module, what a function has captured."""
    found: list[torch.Tensor] = []
    for value in inputs:
        if isinstance(value, torch.nn.Module):
            found += [*value.parameters(), *value.buffers()]
        elif not isinstance(value, (torch.Tensor, list, tuple, dict)):
            found += [kept.value for kept in _walk(value, "", set(), DEPTH) if isinstance(kept.value, torch.Tensor)]
    return found
