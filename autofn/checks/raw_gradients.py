"""What a backward returns before the engine repairs it: the dtype, the device and the shape of every gradient.

The engine sums a gradient that is too large and casts one of another dtype, without a word. Whoever calls the backward
otherwise (compiled autograd, another backward, `grad_fn`) gets what was returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from ..case import as_tuple
from ..spec import dtype_name
from .rule import ERROR, WARNING, Finding, Rule
from .subject import Inputs, Subject, custom_nodes
from .tools.attempt import copies, weights_of

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Raw:
    """One gradient as returned. place: of the argument it belongs to. like: the argument's metadata."""

    place: int
    grad: torch.Tensor
    like: Any

    @property
    def where(self) -> str:
        return f"gradient of input {self.place}"


def gradient_dtype(subject: Subject) -> Iterator[Finding]:
    """Each gradient is returned in the dtype and on the device of its input, in every dtype that the forward takes."""
    seen = [raw for dtype in _dtypes(subject) for raw in _raw(subject, subject.inputs(dtype))]
    _need_some(seen)
    told: set[int] = set()
    for raw in seen:
        if raw.place not in told and (finding := _of_dtype(raw)) is not None:
            told.add(raw.place)
            yield finding


def _of_dtype(raw: Raw) -> Finding | None:
    got, want = raw.grad, raw.like
    if got.device != want.device:
        return Finding(
            "the backward returns it on another device than the input", raw.where, str(got.device), str(want.device),
            fix="create it with the input's device",
        )  # fmt: skip
    if got.dtype == want.dtype:
        return None
    refused = got.is_complex() and not want.dtype.is_complex
    message = "which the engine refuses" if refused else "which the engine casts without a word, other callers do not"
    fix = "take .real, for the input is real" if refused else "end the backward with .to(input.dtype)"
    return Finding(
        f"the backward returns {dtype_name(got.dtype)} for an input of {dtype_name(want.dtype)}, {message}",
        raw.where, dtype_name(got.dtype), dtype_name(want.dtype), None, fix, ERROR if refused else WARNING,
    )  # fmt: skip


def gradient_shape(subject: Subject) -> Iterator[Finding]:
    """Each gradient is returned in the shape of its input."""
    seen = _raw(subject, subject.inputs())
    _need_some(seen)
    for raw in seen:
        got, want = list(raw.grad.shape), list(raw.like.shape)
        if got == want:
            continue
        summed = _sums_to(got, want)
        message = "which the engine sums without a word, other callers do not" if summed else "which does not fit it"
        yield Finding(
            f"the backward returns shape {got} for an input of shape {want}, {message}",
            raw.where, str(got), str(want), None,
            "sum it: `grad.sum_to_size(input.shape)`" if summed else "reshape it to the input's shape",
            WARNING if summed else ERROR,
        )  # fmt: skip


def _sums_to(got: list[int], want: list[int]) -> bool:
    """Whether a tensor of shape `want` expands to `got`, so that the engine can sum it back."""
    padded = [1] * (len(got) - len(want)) + want
    return len(got) >= len(want) and all(b in (1, a) for a, b in zip(got, padded, strict=True))


def _dtypes(subject: Subject) -> Iterator[torch.dtype]:
    """The dtypes to try: those that the Spec declares, else those that function and reference take."""
    if subject.compiled:
        yield subject.dtype
        return
    for dtype in subject.dtypes or DTYPES:
        try:
            inputs = subject.inputs(dtype)
        except Exception:  # a user's code may raise anything, and need not know this dtype
            continue
        taken = weights_of(subject, inputs) is not None
        if taken and (subject.reference is None or weights_of(subject, inputs, subject.reference) is not None):
            yield dtype


def _raw(subject: Subject, inputs: Inputs) -> list[Raw]:
    """All gradients that the Functions between outputs and inputs return in one backward; none of PyTorch's own."""
    outputs = subject.call(copies(inputs))
    nodes = list(custom_nodes(outputs))
    return _of_python(outputs, subject, nodes) if nodes else _of_cpp(outputs, subject)


def _need_some(seen: list[Raw]) -> None:
    if not seen:
        raise NotImplementedError("no backward that is written by hand returned a gradient")


def _of_python(outputs: tuple[torch.Tensor, ...], subject: Subject, nodes: list[Any]) -> list[Raw]:
    returned: list[tuple[Any, Any]] = []
    weights = [w for w in subject.grad_outputs(outputs) if w is not None]
    tracked = [out for out in outputs if isinstance(out, torch.Tensor) and out.requires_grad]
    # What the engine or the Function raises is another rule's; what was returned before is known.
    with _watched({type(node)._forward_cls for node in nodes}, returned), suppress(Exception):
        torch.autograd.backward(tracked, weights)
    return [raw for node, grads in returned if node in nodes for raw in _raws(node, grads)]


@contextmanager
def _watched(classes: set[Any], returned: list[tuple[Any, Any]]) -> Iterator[None]:
    """Within it each backward of these classes leaves its node and what it returned in `returned`."""
    replaced = []
    for each in classes:
        name = "backward" if each.vjp is torch.autograd.Function.vjp else "vjp"
        replaced.append((each, name, vars(each).get(name)))
        setattr(each, name, staticmethod(_watching(getattr(each, name), returned)))
    try:
        yield
    finally:
        for each, name, own in replaced:
            if own is None:
                delattr(each, name)
            else:
                setattr(each, name, own)


def _watching(backward: Any, returned: list[tuple[Any, Any]]) -> Any:
    def watching(ctx: Any, *grads: Any) -> Any:
        found = backward(ctx, *grads)
        returned.append((ctx, found))
        return found

    return watching


def _raws(node: Any, returned: Any) -> Iterator[Raw]:
    """Each gradient beside the argument it is for: the edges that lead on belong to the arguments that need one."""
    grads = as_tuple(returned)
    needed = [place for place, needs in enumerate(node.needs_input_grad) if needs]
    edges = [edge for edge in node.next_functions if edge[0] is not None]
    for place, (following, number) in zip(needed, edges, strict=False):
        if place < len(grads) and isinstance(grads[place], torch.Tensor):
            yield Raw(place, grads[place], following._input_metadata[number])


def _of_cpp(outputs: tuple[torch.Tensor, ...], subject: Subject) -> list[Raw]:
    """The gradients of a C++ torch::autograd::Function that made an output: its node is called directly."""
    by_hand = [
        (out, w)
        for out, w in zip(outputs, subject.grad_outputs(outputs), strict=True)
        if w is not None and out.grad_fn is not None and out.grad_fn.name().startswith("torch::autograd::CppNode")
    ]
    if not by_hand:
        return []
    node: Any = by_hand[0][0].grad_fn
    grads: list[torch.Tensor | None] = [None] * len(node._input_metadata)
    for out, w in by_hand:
        if out.grad_fn is node:
            grads[out.output_nr] = w
    returned = as_tuple(node(*grads))
    return [
        Raw(place, grad, following._input_metadata[number])
        for place, (grad, (following, number)) in enumerate(zip(returned, node.next_functions, strict=False))
        if grad is not None and following is not None
    ]


RULES = (
    Rule(
        "gradient-dtype",
        WARNING,
        "each gradient is returned in its input's dtype and on its device",
        gradient_dtype,
        written=True,
    ),
    Rule("gradient-shape", WARNING, "each gradient is returned in its input's shape", gradient_shape, written=True),
)
