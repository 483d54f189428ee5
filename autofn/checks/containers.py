"""Tensors that require grad and reach a Function other than as arguments of their own: autograd does not see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .rule import Finding, Rule
from .subject import Inputs, Subject
from .tools import watching
from .tools.comparing import same_bits
from .tools.watching import Operations

APART = "pass every tensor to apply as an argument of its own, as in apply(x, *weights), and return its gradient"


@dataclass(frozen=True)
class Hidden:
    """A tensor that requires grad and is no argument of its own. place: where it was found, as text."""

    tensor: torch.Tensor
    place: str


def hidden_tensor(subject: Subject) -> Iterator[Finding]:
    """Every tensor that requires grad inside a list, tuple or dict gets its gradient."""
    reached = _reached(subject, _unseen)
    if not reached.contained:
        raise NotImplementedError("no tensor that requires grad is inside a container")
    for hidden in reached.contained:
        if not _has_path(reached.outputs, hidden.tensor) and _matters(subject, reached.inputs, hidden.tensor):
            message = "a tensor that requires grad is not tracked here: autograd does not see it"
            yield Finding(message, hidden.place, "no path in the graph", "a gradient", fix=APART)


def captured_tensor(subject: Subject) -> Iterator[Finding]:
    """A Function reads no tensor that requires grad but its arguments."""
    reached = _reached(subject, _unseen if subject.compiled else watching.operations)
    for hidden in reached.captured:
        if not _has_path(reached.outputs, hidden.tensor) and _matters(subject, reached.inputs, hidden.tensor):
            message = "a tensor that requires grad is read without being an argument: autograd does not see it"
            yield Finding(message, hidden.place, "no path in the graph", "a gradient", fix=APART)


@dataclass
class _Reached:
    """A forward, and the tensors requiring grad that its Functions took in containers or captured."""

    inputs: Inputs
    outputs: tuple[torch.Tensor, ...] = ()
    contained: list[Hidden] = field(default_factory=list)
    captured: list[Hidden] = field(default_factory=list)


@contextmanager
def _unseen() -> Iterator[Operations]:
    """In place of `watching.operations`, where they are not needed or cannot be seen: none."""
    yield Operations()


def _reached(subject: Subject, operations: Callable[[], AbstractContextManager[Operations]]) -> _Reached:
    """What the Functions on the way are handed, and what their operations read."""
    classes = watching.functions(subject)
    reached = _Reached(subject.inputs())
    direct: list[torch.Tensor] = []
    read: list[torch.Tensor] = []

    @contextmanager
    def around(arguments: Inputs) -> Iterator[None]:
        direct.extend(each for each in arguments if isinstance(each, torch.Tensor))
        for place, each in enumerate(arguments):
            reached.contained += _in_container(each, f"argument {place}")
            reached.captured += _in_module(each, f"argument {place}")
        with operations() as listed:
            yield
        made = [t for each in listed.seen for t in each.results]
        read.extend(t for each in listed.seen for t in each.arguments if not _among(t, made))

    with watching.forwards(classes, around):
        reached.outputs = watching.tensors(watching.outputs_of(subject, subject.writable(reached.inputs)))
    named = [hidden for each in classes for hidden in _named(each)]
    reached.captured += [_found(t, named) for t in read if t.requires_grad]
    reached.captured += named
    given = [*direct, *(each.tensor for each in reached.contained)]
    reached.contained = _distinct(reached.contained, direct)
    reached.captured = _distinct(reached.captured, given)
    return reached


def _in_container(argument: Any, place: str) -> list[Hidden]:
    if isinstance(argument, torch.Tensor):
        return []
    kind = type(argument).__name__
    return [Hidden(t, f"{place} ({kind})") for t in watching.tensors(argument) if t.requires_grad]


def _in_module(value: Any, place: str) -> list[Hidden]:
    """The parameters of a module, also of one to which a function is bound."""
    owner = getattr(value, "__self__", value)
    if not isinstance(owner, torch.nn.Module):
        return []
    return [Hidden(t, f"{place}: parameter {name}") for name, t in owner.named_parameters() if t.requires_grad]


def _named(function: type[torch.autograd.Function]) -> list[Hidden]:
    """The tensors that require grad, and the parameters, behind the names that forward and setup_context use."""
    found = []
    for method in (function.forward, function.setup_context):
        for name, value in _names(method).items():
            if isinstance(value, torch.Tensor) and value.requires_grad:
                found.append(Hidden(value, f"{function.__name__}: {name}"))
            found += _in_module(value, f"{function.__name__}: {name}")
    for name, value in vars(function).items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            found.append(Hidden(value, f"{function.__name__}.{name}"))
    return found


def _names(method: Any) -> Mapping[str, Any]:
    """What a Python function reaches by closure and by global names, as far as it can be read."""
    method = getattr(method, "__wrapped__", method)
    code = getattr(method, "__code__", None)
    if code is None:
        return {}
    cells = zip(code.co_freevars, method.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    return closed | {name: method.__globals__[name] for name in code.co_names if name in method.__globals__}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _found(t: torch.Tensor, named: list[Hidden]) -> Hidden:
    for each in named:
        if each.tensor is t:
            return each
    return Hidden(t, f"a tensor of shape {list(t.shape)} from outside")


def _distinct(hidden: list[Hidden], others: list[torch.Tensor]) -> list[Hidden]:
    """Each tensor once, without the others."""
    kept: list[Hidden] = []
    for each in hidden:
        if not _among(each.tensor, (*others, *(other.tensor for other in kept))):
            kept.append(each)
    return kept


def _among(t: torch.Tensor, others: Iterable[torch.Tensor]) -> bool:
    return any(t is each for each in others)


def _has_path(outputs: Iterable[torch.Tensor], t: torch.Tensor) -> bool:
    """Whether autograd leads from an output to a tensor."""
    target = t.grad_fn
    waiting = [out.grad_fn for out in outputs if out.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node is target or getattr(node, "variable", None) is t:
            return True
        following = {each for each, _ in node.next_functions if each is not None} - seen
        seen |= following
        waiting += following
    return False


def _matters(subject: Subject, inputs: Inputs, t: torch.Tensor) -> bool:
    """Whether the outputs depend on a tensor, and are meant to: the reference's gradient, where it has one, says so."""
    kept = t.detach().clone()
    base, again = _outputs(subject, inputs), _outputs(subject, inputs)
    with torch.no_grad():
        t.add_(watching.STEP * (1 + t.abs()))
        changed = _outputs(subject, inputs)
        t.copy_(kept)
    return same_bits(base, again) and not same_bits(base, changed) and not _cut_in_reference(subject, inputs, t)


def _outputs(subject: Subject, inputs: Inputs) -> list[torch.Tensor]:
    with torch.no_grad():
        outputs = watching.tensors(watching.outputs_of(subject, subject.writable(inputs)))
    return [out for out in outputs if out.is_floating_point() or out.is_complex()]


def _cut_in_reference(subject: Subject, inputs: Inputs, t: torch.Tensor) -> bool:
    """Whether the reference, on the same arguments, has no gradient for the tensor either."""
    if subject.reference is None:
        return False
    outputs = watching.tensors(subject.call(inputs, subject.reference))
    return not _has_path(outputs, t)


RULES = (
    Rule("hidden-tensor", "error", "tensors that require grad are arguments, not inside a list or dict", hidden_tensor),
    Rule("captured-tensor", "error", "no tensor that requires grad is read without being an argument", captured_tensor),
)
