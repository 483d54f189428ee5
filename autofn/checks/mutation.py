"""Who writes to what: a forward to its inputs, a backward to grad_output and to what was saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .rule import WARNING, Finding, Rule
from .subject import Inputs, Subject, leaves
from .tools import watching
from .tools.comparing import difference
from .tools.watching import Marks

MARK = "work on a copy, or call ctx.mark_dirty and return the input itself; declare it with --mutates"
UNSEEN = "its version counter did not move, so autograd cannot notice"


@dataclass(frozen=True)
class Snapshot:
    """A tensor with the values and the version that it had."""

    where: str
    tensor: torch.Tensor
    values: torch.Tensor
    version: int

    @classmethod
    def of(cls, where: str, tensor: torch.Tensor) -> Snapshot:
        return cls(where, tensor, tensor.detach().clone(), tensor._version)

    @property
    def moved(self) -> int:
        """How often autograd saw it written to."""
        return self.tensor._version - self.version

    def change(self, message: str, fix: str) -> Finding | None:
        """A finding where the tensor was written to, be it seen by its version counter or in its values alone."""
        if self.is_resized:
            now, before = (str(list(t.shape)) for t in (self.tensor, self.values))
            return Finding(f"{message}, and gives it another shape", self.where, now, before, fix=fix)
        changed = difference(self.tensor, self.values, 0.0, 0.0)
        if changed is None:
            return Finding(f"{message} (the same values)", self.where, fix=fix) if self.moved else None
        return changed.finding(message if self.moved else f"{message}; {UNSEEN}", self.where, fix)

    @property
    def is_changed(self) -> bool:
        return bool(self.moved) or self.is_resized or difference(self.tensor, self.values, 0.0, 0.0) is not None

    @property
    def is_resized(self) -> bool:
        return self.tensor.shape != self.values.shape


def snapshots(named: Iterable[tuple[str, Any]]) -> list[Snapshot]:
    """Of those that are strided tensors."""
    return [Snapshot.of(where, t) for where, t in named if isinstance(t, torch.Tensor) and t.layout is torch.strided]


def _arguments(inputs: Inputs) -> list[list[Snapshot]]:
    """The tensors of each argument, also those in containers."""
    return [snapshots((f"input {place}", t) for t in watching.tensors(each)) for place, each in enumerate(inputs)]


def mutated_input(subject: Subject) -> Iterator[Finding]:
    """The forward leaves its inputs as they are, unless it says that it does not."""
    watching.need_a_forward(subject)
    reported: set[int] = set()
    for dtype in watching.dtypes(subject):
        for kept in (range(len(subject.inputs())), ()):
            for place, finding in _written(subject, watching.frozen(subject.inputs(dtype), kept)):
                if place not in reported:
                    reported.add(place)
                    yield finding


def _written(subject: Subject, inputs: Inputs) -> Iterator[tuple[int, Finding]]:
    passed = watching.copies(inputs)
    before = _arguments(passed)
    histories = [getattr(t, "grad_fn", None) for t in passed]
    with watching.marks() as marked:
        watching.outputs_of(subject, passed)
    for place, (tensors, history) in enumerate(zip(before, histories, strict=True)):
        tensors = [each for each in tensors if not any(each.tensor is t for t in marked.dirty)]
        changes = [found for each in tensors if (found := each.change("the forward writes to it", MARK))]
        if not changes or place in subject.intent.mutates:
            continue
        followed = getattr(passed[place], "grad_fn", None) is not history
        tracked = any(t.requires_grad for t in watching.tensors(subject.inputs()[place]))
        if not tracked and _reference_writes(subject, place):
            continue
        # What autograd follows, and what has no gradient, such as running statistics, is right, if surprising.
        yield place, changes[0] if tracked and not followed else _as_warning(changes[0])


def _as_warning(finding: Finding) -> Finding:
    return Finding(**{**vars(finding), "severity": WARNING})


def _reference_writes(subject: Subject, place: int) -> bool:
    """Whether the reference writes to the same argument: then that is what the Function is for."""
    if subject.reference is None:
        return False
    passed = watching.copies(subject.inputs())
    before = _arguments(passed)[place]
    with torch.no_grad():
        subject.reference(*passed)
    return any(each.is_changed for each in before)


def mark_dirty(subject: Subject) -> Iterator[Finding]:
    """What is marked dirty is written to and returned, and what is written to and returned is marked dirty."""
    watching.functions(subject)
    runs = [_marked(subject, seed) for seed in (0, 1)]
    for run in runs:
        if run.refusal:
            yield Finding(run.refusal, fix="return every tensor that is marked dirty, itself and not a copy")
            return
    for place in range(len(runs[0].arguments)):
        yield from _wrongly_marked(place, [run.arguments[place] for run in runs])


@dataclass(frozen=True)
class _Argument:
    """One argument after a forward: whether it was marked dirty, written to, and returned."""

    marked: bool
    written: bool
    returned: bool


@dataclass(frozen=True)
class _Run:
    arguments: list[_Argument]
    refusal: str = ""


def _marked(subject: Subject, seed: int) -> _Run:
    passed = watching.copies(subject.inputs(seed=seed))
    before = [snapshots([(f"input {place}", t)]) for place, t in enumerate(passed)]
    with watching.marks() as marked:
        try:
            outputs = watching.outputs_of(subject, passed)
        except RuntimeError as error:
            if "marked as dirty" not in str(error):
                raise
            return _Run([], str(error))
    return _Run([_argument(each, marked, outputs) for each in before])


def _argument(before: list[Snapshot], marked: Marks, outputs: tuple[Any, ...]) -> _Argument:
    if not before:
        return _Argument(False, False, False)
    (shot,) = before
    is_marked = any(shot.tensor is t for t in marked.dirty)
    # Marking alone moves the version counter by 1.
    written = shot.moved > is_marked or difference(shot.tensor, shot.values, 0.0, 0.0) is not None
    returned = any(_same_memory(shot.tensor, out) for out in outputs)
    return _Argument(is_marked, written, returned)


def _same_memory(a: torch.Tensor, b: Any) -> bool:
    return a is b or (isinstance(b, torch.Tensor) and b.numel() > 0 and a.data_ptr() == b.data_ptr())


def _wrongly_marked(place: int, runs: list[_Argument]) -> Iterator[Finding]:
    where = f"input {place}"
    if all(run.marked and not run.written for run in runs):
        message = "it is marked dirty, but the forward does not write to it: a leaf that requires grad is refused"
        yield Finding(message, where, "not written", "written", fix="mark only what the forward overwrites")
    elif any(run.written and run.returned and not run.marked for run in runs):
        message = "it is written to and returned, but not marked dirty: its old history stays"
        yield Finding(message, where, "not marked", "ctx.mark_dirty", fix=MARK)


def mutated_grad_output(subject: Subject) -> Iterator[Finding]:
    """The backward leaves grad_output as it is: the engine may have given the same tensor to others."""
    fix = "write to a new tensor, or to grad_output.clone(); also .contiguous(), .to() and .float() may not copy"
    watching.need_a_backward(subject)

    def given(node: Any, grad_outputs: tuple[Any, ...]) -> list[Snapshot]:
        name = node._forward_cls.__name__
        return snapshots((f"grad_output {place} of {name}", g) for place, g in enumerate(grad_outputs))

    def handed(inputs: Inputs, outputs: tuple[Any, ...], weights: tuple[Any, ...]) -> list[Snapshot]:
        return snapshots((f"grad_output {place}", w) for place, w in enumerate(weights))

    yield from _in_backward(subject, _Watched(given, handed, fix))


def mutated_saved(subject: Subject) -> Iterator[Finding]:
    """The backward leaves inputs, outputs and saved tensors as they are: others read them, and a second backward."""
    fix = "write to a new tensor: what was saved, an input or an output is not scratch memory"
    watching.need_a_backward(subject)

    def saved(node: Any, grad_outputs: tuple[Any, ...]) -> list[Snapshot]:
        name = node._forward_cls.__name__
        return snapshots((f"saved tensor {place} of {name}", t) for place, t in enumerate(node.saved_tensors))

    def ends(inputs: Inputs, outputs: tuple[Any, ...], weights: tuple[Any, ...]) -> list[Snapshot]:
        named = [(f"output {place}", t) for place, t in enumerate(outputs)]
        return [*snapshots(named), *(shot for shots in _arguments(inputs) for shot in shots)]

    yield from _in_backward(subject, _Watched(saved, ends, fix))


@dataclass(frozen=True)
class _Watched:
    """Which tensors must outlive a backward: at each node, and outside of it; and the way out if they do not."""

    at_node: Callable[[Any, tuple[Any, ...]], list[Snapshot]]
    outside: Callable[[Inputs, tuple[Any, ...], tuple[Any, ...]], list[Snapshot]]
    fix: str


def _in_backward(subject: Subject, watched: _Watched) -> Iterator[Finding]:
    told: set[str] = set()
    for dtype in watching.dtypes(subject):
        for finding in _changes(subject, subject.inputs(dtype), watched):
            if finding.where not in told:
                told.add(finding.where)
                yield finding


def _changes(subject: Subject, inputs: Inputs, watched: _Watched) -> list[Finding]:
    """What changed at the nodes; where nothing did, what changed outside, as of an operator in C++."""
    passed = subject.writable(inputs)
    outputs = watching.outputs_of(subject, passed)
    weights = subject.grad_outputs(outputs)
    chosen = [(out, w) for out, w in zip(outputs, weights, strict=True) if w is not None]
    outside = watched.outside(passed, outputs, weights)

    @contextmanager
    def compared(node: Any, grad_outputs: tuple[Any, ...]) -> Iterator[list[Finding]]:
        found: list[Finding] = []
        before = watched.at_node(node, grad_outputs)
        yield found
        found += _told(before, watched.fix)

    with watching.backwards(compared) as calls:
        outs, given = zip(*chosen, strict=True)
        torch.autograd.grad(outs, leaves(inputs), given, allow_unused=True)
    inner = [finding for call in calls for finding in call.noted]
    return inner or _told(outside, watched.fix)


def _told(shots: list[Snapshot], fix: str) -> list[Finding]:
    return [change for shot in shots if (change := shot.change("the backward writes to it", fix))]


RULES = (
    Rule("mutated-input", "error", "the forward writes to no input, unless that is declared", mutated_input),
    Rule("mark-dirty", "error", "what is marked dirty is what is written to and returned", mark_dirty, written=True),
    Rule("mutated-grad-output", "error", "the backward does not write to grad_output", mutated_grad_output),
    Rule("mutated-saved", "error", "the backward does not write to inputs, outputs or saved tensors", mutated_saved),
)
