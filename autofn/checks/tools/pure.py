"""A Function as a pure function of its leaves: the same other arguments and random numbers at every call."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..subject import Inputs, Subject, custom_nodes, differentiable, function_of, leaves, positions

Tensors = tuple[torch.Tensor, ...]
TORCH = str(Path(torch.__file__).parent)


@dataclass(frozen=True)
class Pure:
    """Called with the leaves alone; gives those outputs that have a gradient.

    inputs: the other arguments stand in them. places: of the leaves among the inputs. kept: positions of the outputs
    that have a gradient. weights: one standard normal grad_output for each of those.
    """

    subject: Subject
    inputs: Inputs
    places: tuple[int, ...]
    kept: tuple[int, ...]
    weights: Tensors
    apply: Callable[..., Any] | None = None

    def __call__(self, *given: torch.Tensor) -> Tensors:
        arguments = list(self.inputs)
        for place, t in zip(self.places, given, strict=True):
            arguments[place] = t
        outputs = self.subject.call(tuple(arguments), self.apply)
        return tuple(outputs[place] for place in self.kept)

    def leaves(self) -> Tensors:
        """Detached copies of the leaves."""
        return tuple(self.inputs[place].detach().clone() for place in self.places)

    def gradients(self, given: Tensors, weights: Tensors, **options: Any) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the leaves that require grad, by torch.autograd.grad, which gets the options."""
        wanted = [t for t in given if t.requires_grad]
        with seeded():
            outputs = self(*given)
            chosen = [(out, w) for out, w in zip(outputs, weights, strict=True) if out.requires_grad]
            if not chosen:
                return tuple(None for _ in wanted)
            outs, weighted = zip(*chosen, strict=True)
            return torch.autograd.grad(outs, wanted, weighted, allow_unused=True, **options)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Within it random numbers start from the seed; after it they go on as if nothing had been."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def pure(subject: Subject, dtype: torch.dtype | None = None, apply: Callable[..., Any] | None = None) -> Pure:
    """The subject (or `apply`) with its inputs.

    Raises NotImplementedError where there is nothing to differentiate, or where plain forward and backward raise: other
    rules report that.
    """
    inputs = subject.inputs(dtype)
    if not leaves(inputs):
        raise NotImplementedError("no argument requires grad")
    try:
        with seeded():
            outputs = subject.call(subject.inputs(dtype), apply)
            subject.gradients(subject.inputs(dtype), apply=apply)
    except Exception as error:  # a Function may raise anything
        raise NotImplementedError(f"the plain forward and backward raise {type(error).__name__}: {error}") from error
    kept = tuple(place for place, out in enumerate(outputs) if differentiable(out))
    if not kept:
        raise NotImplementedError("no output requires grad")
    weights = tuple(w for w in subject.grad_outputs(outputs) if w is not None)
    return Pure(subject, inputs, tuple(positions(inputs)), kept, weights, apply)


def transformable(subject: Subject, dtype: torch.dtype | None = None) -> Pure:
    """`pure`, for torch.func.

    Raises NotImplementedError for a compiled graph, which no transform looks into, and without setup_context. That is
    seen without torch.func, whose first use imports Dynamo (a second).
    """
    if subject.compiled:
        raise NotImplementedError("torch.func does not look into a compiled graph")
    function = pure(subject, dtype)
    if lacks_setup_context(subject):
        raise NotImplementedError("setup_context is missing; see func-grad")
    return function


def lacks_setup_context(subject: Subject) -> bool:
    """Whether a Function on the way is written as forward(ctx, *args)."""
    return not all(overrides(each, "setup_context") for each in own_classes(subject))


def own_classes(subject: Subject) -> tuple[type[torch.autograd.Function], ...]:
    """`classes` without those that are PyTorch's, such as what it makes for an operator."""
    return tuple(each for each in classes(subject) if not each.__module__.startswith("torch."))


def overrides(function: type[torch.autograd.Function], name: str) -> bool:
    """Whether a Function has a static method of its own by that name, such as jvp or vmap."""
    return getattr(function, name) is not getattr(torch.autograd.Function, name)


def classes(subject: Subject) -> tuple[type[torch.autograd.Function], ...]:
    """The torch.autograd.Functions written in Python that a call goes through."""
    with seeded():
        outputs = subject.call(subject.inputs())
    found = [type(node)._forward_cls for node in custom_nodes(outputs)]
    own = function_of(subject.apply)
    return tuple(dict.fromkeys([own, *found] if own else found))


def deliberate(error: BaseException) -> bool:
    """Whether an error is a refusal: NotImplementedError, or raised by a `raise` in code outside PyTorch."""
    if isinstance(error, NotImplementedError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    here = [each.opname for each in dis.get_instructions(code) if each.offset == trace.tb_lasti]
    return here == ["RAISE_VARARGS"] and not code.co_filename.startswith(TORCH)


def told(error: BaseException, length: int = 200) -> str:
    """An error in a line: its type and how its message begins."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:length]}"


def dot(a: torch.Tensor, b: torch.Tensor) -> float:
    """The real inner product; infinities times 0 are NaN, as in any arithmetic."""
    return float((a.detach().conj() * b.detach()).real.sum())


def normal_like(t: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Standard normal numbers of a tensor's shape, dtype and device."""
    dtype = torch.complex128 if t.dtype.is_complex else torch.float64
    return torch.randn(t.shape, generator=generator, dtype=dtype).to(t)
