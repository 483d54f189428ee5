"""A case: one (Function, variant, workload, dtype, device) with its inputs, ready to call and to synchronise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .records import Key as Key
from .spec import dtype_named

if TYPE_CHECKING:
    from .spec import Spec

Outputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """Prepared inputs and the callable. All variants of a Function get the same values, flags and grad_outputs."""

    key: Key
    apply: Callable[..., Any]
    inputs: tuple[Any, ...]
    grad_outputs: Outputs

    @property
    def leaves(self) -> Outputs:
        """The inputs that require grad."""
        return tuple(t for t in self.inputs if isinstance(t, torch.Tensor) and t.requires_grad)

    def forward(self) -> Outputs:
        """The outputs, always as a tuple; each is attached to a fresh graph."""
        return as_tuple(self.apply(*self.inputs))

    def backward(self, outputs: Outputs, *, create_graph: bool = False) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the leaves for `grad_outputs`; frees the graph unless create_graph."""
        return torch.autograd.grad(
            outputs, self.leaves, self.grad_outputs, create_graph=create_graph, allow_unused=True
        )

    def synchronise(self) -> None:
        """Waits until the device has done all that was asked of it. On CPU calls are synchronous."""
        if self.key.device == "cuda":
            torch.cuda.synchronize()


def prepare(spec: Spec, key: Key, apply: Callable[..., Any], seed: int = 0) -> Case:
    """The case `key` with inputs from the Spec.

    The grad_outputs are standard normal, drawn from a generator seeded by what the variants share, so that every
    variant gets the same ones. Raises LookupError for an unknown workload or dtype, and whatever the forward raises.
    """
    if key.workload not in spec.workloads:
        raise LookupError(f"{spec.name} has no workload {key.workload!r}; it has {', '.join(spec.workloads)}")
    dtype = dtype_named(key.dtype)
    spec.tolerance(dtype)
    inputs = spec.make_inputs(**spec.workloads[key.workload], dtype=dtype, device=key.device, seed=seed)
    must_share_a_device(inputs)
    with torch.no_grad():
        outputs = as_tuple(spec.reference(*undirtied(spec.mutates, inputs)))
    generator = torch.Generator().manual_seed(_seed(spec.name, key.workload, key.dtype, seed))
    grads = tuple(torch.randn(out.shape, generator=generator).to(out) for out in outputs)
    return Case(key, apply, inputs, grads)


@contextmanager
def explaining(case: Case) -> Iterator[None]:
    """What fails inside because the variant returns another number of outputs than the reference is told as that."""
    try:
        yield
    except Exception as error:
        got, want = len(case.forward()), len(case.grad_outputs)
        if got != want:
            raise ValueError(
                f"it returns {got} outputs where the reference returns {want}; return as many, in the same order"
            ) from error
        raise


def must_share_a_device(inputs: tuple[Any, ...]) -> None:
    """Raises ValueError for arguments on several devices; a single number may lie on the CPU."""
    places = {f"input {n}": t.device.type for n, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.dim()}
    if len(set(places.values())) > 1:
        told = ", ".join(f"{name} on {device}" for name, device in places.items())
        raise ValueError(f"make_inputs gives {told}; make all of them on the `device` that it is given")


def denormal_inputs(case: Case) -> list[int]:
    """Positions of the inputs that hold denormal numbers: arithmetic on them may be many times slower."""
    return denormal_positions(case.inputs)


def denormal_positions(inputs: tuple[Any, ...]) -> list[int]:
    """As `denormal_inputs`, of any arguments."""
    return [
        position
        for position, t in enumerate(inputs)
        if isinstance(t, torch.Tensor)
        and t.is_floating_point()
        and bool(((t != 0) & (t.abs() < torch.finfo(t.dtype).tiny)).any())
    ]


def as_tuple(outputs: Any) -> Outputs:
    """What a Function returned, as a tuple of tensors."""
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)


def exact_inputs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values in float64, as leaves of their own, for the reference as the truth."""
    return tuple(
        t.detach().to(torch.float64, copy=True).requires_grad_(t.requires_grad)
        if isinstance(t, torch.Tensor) and t.is_floating_point()
        else t
        for t in inputs
    )


def undirtied(mutates: Container[int], inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same arguments, those at positions that the forward writes into copied."""
    return tuple(t.clone() if position in mutates else t for position, t in enumerate(inputs))


def _seed(*parts: object) -> int:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:6], "big")
