"""What passes between the engine and Functions written in Python: marks, arguments, raw gradients, operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import wraps
from itertools import combinations
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ...case import as_tuple
from ...compiled import forget
from ..subject import Inputs, Subject, custom_nodes, function_of, positions
from .pure import seeded

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Backward:
    """One call of a backward: what it was given, what it returned before the engine looked at it, what was noted."""

    node: Any
    grad_outputs: tuple[torch.Tensor | None, ...]
    grads: tuple[Any, ...]
    noted: Any

    @property
    def name(self) -> str:
        return self.node._forward_cls.__name__


Around = Callable[[Any, tuple[Any, ...]], AbstractContextManager[Any]]
"""`around(node, grad_outputs)`: a context within which the backward runs; what it gives is noted."""


@contextmanager
def backwards(around: Around = lambda node, grad_outputs: nullcontext()) -> Iterator[list[Backward]]:
    """Every backward, while it is open, of a Function that torch itself does not define."""
    original = BackwardCFunction.apply
    seen: list[Backward] = []

    def apply(node: Any, *grad_outputs: Any) -> Any:
        if not is_custom(node):
            return original(node, *grad_outputs)
        with around(node, grad_outputs) as noted:
            given = original(node, *grad_outputs)
        grads = given if isinstance(given, tuple) else (given,)
        seen.append(Backward(node, grad_outputs, grads, noted))
        return given

    BackwardCFunction.apply = apply  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        BackwardCFunction.apply = original  # type: ignore[method-assign]


def is_custom(node: Any) -> bool:
    """Whether a node is of somebody's own Function, not of checkpoint's or of what torch.compile makes."""
    return not node._forward_cls.__module__.startswith("torch.")


def nodes(outputs: Iterable[Any]) -> list[Any]:
    """The nodes of the Functions written in Python, torch's own left out."""
    return [node for node in custom_nodes(tuple(outputs)) if is_custom(node)]


def functions(subject: Subject) -> list[type[torch.autograd.Function]]:
    """The Functions written in Python that a call goes through, each once. Raises NotImplementedError for none."""
    direct = function_of(subject.apply)
    if direct is not None:
        return [direct]
    found = {node._forward_cls: None for node in nodes(need_a_forward(subject))}
    if not found:
        raise NotImplementedError("no Function written in Python is on the way from the inputs to the outputs")
    return list(found)


@dataclass
class Marks:
    """What forwards declared on their ctx. Tensors are kept, so that identity means something."""

    dirty: list[torch.Tensor] = field(default_factory=list)
    non_differentiable: list[torch.Tensor] = field(default_factory=list)
    saved: list[torch.Tensor] = field(default_factory=list)


@contextmanager
def marks() -> Iterator[Marks]:
    """What every forward, while it is open, declares by mark_dirty, mark_non_differentiable and save_for_backward."""
    found = Marks()
    kept = {"mark_dirty": found.dirty, "mark_non_differentiable": found.non_differentiable}
    with ExitStack() as stack:
        for name, into in (*kept.items(), ("save_for_backward", found.saved)):
            stack.enter_context(_patched(FunctionCtx, name, _noting(getattr(FunctionCtx, name), into)))
        yield found


def _noting(method: Callable[..., Any], into: list[torch.Tensor]) -> Callable[..., Any]:
    @wraps(method)
    def noting(ctx: Any, *tensors: Any) -> Any:
        into.extend(t for t in tensors if isinstance(t, torch.Tensor))
        return method(ctx, *tensors)

    return noting


@contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if original is None:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


@contextmanager
def forwards(classes: Iterable[type], around: Callable[[Inputs], AbstractContextManager[Any]]) -> Iterator[None]:
    """While it is open, each forward of the classes runs within `around(arguments)`; ctx is not among the arguments."""
    with ExitStack() as stack:
        for each in classes:
            stack.enter_context(_patched(each, "forward", staticmethod(_within(each, around))))
        yield


def _within(function: Any, around: Callable[[Inputs], AbstractContextManager[Any]]) -> Callable[..., Any]:
    original = function.forward
    skipped = 0 if has_setup_context(function) else 1

    @wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        with around((*args[skipped:], *kwargs.values())):
            return original(*args, **kwargs)

    return forward


def has_setup_context(function: type[torch.autograd.Function]) -> bool:
    """Whether ctx is set up by setup_context, so that forward does not get it."""
    return function.setup_context is not torch.autograd.Function.setup_context


@dataclass(frozen=True)
class Operation:
    """One operation of PyTorch: its name, what it read, what it gave.

    computes: whether it filled memory with values; a view does not, nor does an allocation, which others may fill
    unseen.
    """

    name: str
    arguments: Tensors
    results: Tensors
    computes: bool

    @property
    def signature(self) -> tuple[str, tuple[torch.Size, ...]]:
        return self.name, tuple(t.shape for t in self.results)


BLANK = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}


class Operations(TorchDispatchMode):
    """Lists the operations that run. Their tensors are kept alive, so that no memory is given out twice."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Operation] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        read, made = tensors((args, kwargs or {})), tensors(given)
        is_new = func._schema.is_mutable or not storages(made) & storages(read)
        self.seen.append(Operation(func.name(), read, made, is_new and func.name().partition(".")[0] not in BLANK))
        return given


@contextmanager
def operations() -> Iterator[Operations]:
    """Within it operations are listed. Raises NotImplementedError where code (a compiled graph) cannot run so."""
    mode = Operations()
    try:
        with mode:
            yield mode
    except Exception as error:  # the Function runs otherwise
        raise NotImplementedError(f"its operations cannot be listed: {type(error).__name__}: {error}") from error
    finally:
        forget()  # Dynamo remembers what it skipped


def tensors(nested: Any) -> Tensors:
    """All tensors in a structure of tuples, lists and dicts."""
    return tuple(t for t in tree_leaves(nested) if isinstance(t, torch.Tensor))


def storages(given: Iterable[Any]) -> set[int]:
    """Where the memory of tensors begins; what has none (an empty tensor, a subclass without storage) is left out."""
    return {address for t in given if isinstance(t, torch.Tensor) if (address := _address(t))}


def _address(t: torch.Tensor) -> int:
    try:
        return t.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0


def copies(inputs: Inputs) -> Inputs:
    """The arguments with every tensor copied, also in containers: a copy of a leaf is attached to the leaf."""
    return tuple(tree_map_only(torch.Tensor, torch.clone, each) for each in inputs)


def frozen(inputs: Inputs, kept: Iterable[int]) -> Inputs:
    """The arguments, of which only those at the positions kept require grad."""
    kept = set(kept)
    return tuple(
        t if place in kept or not isinstance(t, torch.Tensor) else t.detach() for place, t in enumerate(inputs)
    )


# Relative to an element: far below the distance to a corner of the forward, far above a rounding in float64.
STEP = 1e-6


def moved(inputs: Inputs, places: Iterable[int], step: float) -> Inputs:
    """The arguments, of which those at some positions were moved by a small step; in place."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for place in places:
            t = inputs[place]
            shift = torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t)
            t.add_(step * (1 + t.abs()) * shift)
    return inputs


# All subsets of up to 3 inputs or outputs; beyond, one alone and all but one, which are where a wrong index shows.
ALL_SUBSETS = 3


def subsets(places: list[int]) -> list[tuple[int, ...]]:
    """The proper subsets to try, the smaller first; none is empty."""
    sizes = range(1, len(places)) if len(places) <= ALL_SUBSETS else (1, len(places) - 1)
    return [chosen for size in sizes for chosen in combinations(places, size)]


def gradients(subject: Subject, inputs: Inputs, **options: Any) -> Mapping[int, torch.Tensor | None]:
    """The gradient of each input that requires grad, by position; drawn with a fixed random state."""
    with seeded():
        return dict(zip(positions(inputs), subject.gradients(inputs, **options), strict=True))


def need_a_forward(subject: Subject) -> tuple[Any, ...]:
    """The outputs for the inputs as given. Raises NotImplementedError where there are none to look at."""
    try:
        return outputs_of(subject, copies(subject.inputs()))
    except Exception as error:  # a Function may raise anything
        raise NotImplementedError(f"the forward must run first: {type(error).__name__}: {error}") from error


def need_a_backward(subject: Subject) -> Mapping[int, torch.Tensor | None]:
    """The gradients of the inputs as given. Raises NotImplementedError where there are none to look at."""
    inputs = subject.inputs()
    if not positions(inputs):
        raise NotImplementedError("no input requires grad")
    try:
        return gradients(subject, inputs)
    except Exception as error:  # a Function may raise anything
        raise NotImplementedError(f"forward and backward must run first: {type(error).__name__}: {error}") from error


def dtypes(subject: Subject) -> list[torch.dtype]:
    """The subject's dtype, and float32 where the Function takes it: `.float()` copies in one and not in the other."""
    others = [torch.float32] if subject.dtype == torch.float64 and not subject.compiled else []
    return [subject.dtype, *(dtype for dtype in others if _runs(subject, dtype))]


def _runs(subject: Subject, dtype: torch.dtype) -> bool:
    try:
        outputs = subject.call(subject.inputs(dtype))
        subject.gradients(subject.inputs(dtype), subject.grad_outputs(outputs))
    except Exception:  # a Function may refuse a dtype with any error
        return False
    return True


def outputs_of(subject: Subject, inputs: Inputs) -> tuple[Any, ...]:
    """What a call returns, as a tuple, drawn with a fixed random state; the arguments are handed over as they are."""
    with seeded():
        return as_tuple(subject.apply(*inputs))
