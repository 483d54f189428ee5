"""What is checked: anybody's Function with the inputs that it is for, and what it means to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..case import as_tuple, exact_inputs
from ..promises import Promise, of_one_case
from ..records import Key
from ..spec import dtype_name
from .intent import Intent

if TYPE_CHECKING:
    from ..spec import Spec, Tolerance

Inputs = tuple[Any, ...]
Make = Callable[[torch.dtype, int], Inputs]
"""`make(dtype, seed)`: fresh arguments; the floating ones have that dtype, those to differentiate require grad."""


@dataclass(frozen=True)
class Subject:
    """One callable at one dtype and workload.

    who: how a message calls it. apply: the callable. make: fresh arguments. reference: the formula in PyTorch's own
    operations, or None, and then the backward is held against the forward itself. dtype, workload: of this check.
    dtypes: what the Function declares; empty for one without a Spec. tolerances: declared, by dtype.
    workloads: further sizes by name, each a `make`. promises: what must hold at this dtype and workload, whose sizes
    are `sizes`. written: whether it is a Function written by hand, not a
    composition derived from the reference. compiled: whether it runs through torch.compile.
    """

    who: str
    apply: Callable[..., Any]
    make: Make
    reference: Callable[..., Any] | None = None
    intent: Intent = field(default_factory=Intent)
    dtype: torch.dtype = torch.float64
    workload: str = "given"
    device: str = "cpu"
    dtypes: tuple[torch.dtype, ...] = ()
    tolerances: Mapping[torch.dtype, Tolerance] = field(default_factory=dict)
    workloads: Mapping[str, Make] = field(default_factory=dict)
    promises: tuple[Promise, ...] = ()
    sizes: Mapping[str, Any] = field(default_factory=dict)
    written: bool = True
    compiled: bool = False

    def inputs(self, dtype: torch.dtype | None = None, seed: int = 0) -> Inputs:
        """Fresh arguments, the same at every call with the same seed; by default in the subject's dtype."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make(dtype or self.dtype, seed)

    def call(self, inputs: Inputs, apply: Callable[..., Any] | None = None) -> tuple[torch.Tensor, ...]:
        """The outputs as a tuple, without those that are None.

        An argument that the forward writes to is handed in as a copy, never the leaf.
        """
        return _there(as_tuple((apply or self.apply)(*self.writable(inputs))))

    def writable(self, inputs: Inputs) -> Inputs:
        """The arguments, with copies (attached to the graph) of those that the forward writes to."""
        return tuple(t.clone() if place in self.intent.mutates else t for place, t in enumerate(inputs))

    def grad_outputs(self, outputs: tuple[torch.Tensor, ...], seed: int = 1) -> tuple[torch.Tensor | None, ...]:
        """Standard normal weights for each output that has a gradient, None for the others.

        Those of one output are the same whether or not another one has a gradient.
        """
        generator = torch.Generator().manual_seed(seed)
        drawn = [_normal(out, generator) if _continuous(out) else None for out in outputs]
        return tuple(w if differentiable(out) else None for out, w in zip(outputs, drawn, strict=True))

    def gradients(
        self,
        inputs: Inputs,
        grad_outputs: tuple[torch.Tensor | None, ...] | None = None,
        apply: Callable[..., Any] | None = None,
        **options: Any,
    ) -> tuple[torch.Tensor | None, ...]:
        """The gradients of the leaves among the inputs; options go to torch.autograd.grad.

        grad_outputs: by default those of `grad_outputs(outputs)`.
        """
        outputs = self.call(inputs, apply)
        weights = grad_outputs if grad_outputs is not None else self.grad_outputs(outputs)
        chosen = [(out, w) for out, w in zip(outputs, weights, strict=True) if w is not None and out.requires_grad]
        wanted = leaves(inputs)
        if not chosen or not wanted:
            return tuple(None for _ in wanted)
        outs, given = zip(*chosen, strict=True)
        return torch.autograd.grad(outs, wanted, given, allow_unused=True, **options)

    @property
    def truth(self) -> Callable[..., Any] | None:
        """What the gradient is held against: the surrogate where one is declared, else the reference."""
        return self.intent.surrogate_of if self.intent.surrogate else self.reference


def _there(outputs: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    """Those that are not None, which a Function returns for an output that was not asked for."""
    return tuple(out for out in outputs if out is not None)


def _continuous(out: Any) -> bool:
    return isinstance(out, torch.Tensor) and (out.is_floating_point() or out.is_complex())


def _normal(out: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randn(out.shape, generator=generator, dtype=out.dtype if out.is_complex() else torch.float64)
    return drawn.to(out.dtype).to(out.device)


def differentiable(out: Any) -> bool:
    return isinstance(out, torch.Tensor) and out.requires_grad


def positions(inputs: Inputs) -> list[int]:
    """Where the arguments that require grad stand."""
    return [place for place, t in enumerate(inputs) if isinstance(t, torch.Tensor) and t.requires_grad]


def leaves(inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """The arguments that require grad."""
    return tuple(inputs[place] for place in positions(inputs))


def exact(inputs: Inputs) -> Inputs:
    """The same values in float64 (complex128 where complex), as leaves of their own."""
    wide = exact_inputs(inputs)
    return tuple(
        t.detach().to(torch.complex128, copy=True).requires_grad_(t.requires_grad)
        if isinstance(t, torch.Tensor) and t.dtype.is_complex
        else t
        for t in wide
    )


def custom_nodes(outputs: tuple[torch.Tensor, ...]) -> Iterator[Any]:
    """The nodes (each is its `ctx` too) of every torch.autograd.Function between the outputs and the leaves."""
    seen: set[Any] = set()
    waiting = [out.grad_fn for out in outputs if isinstance(out, torch.Tensor) and out.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            yield node
        waiting += [following for following, _ in node.next_functions if following is not None]


def function_of(apply: Callable[..., Any]) -> type[torch.autograd.Function] | None:
    """The torch.autograd.Function class whose `apply` this is, or None for any other callable."""
    owner = getattr(apply, "__self__", None)
    return owner if inspect.isclass(owner) and issubclass(owner, torch.autograd.Function) else None


def callable_of(given: Any) -> Callable[..., Any]:
    """`apply` of a torch.autograd.Function class, any other callable itself. Raises ValueError for anything else."""
    if inspect.isclass(given) and issubclass(given, torch.autograd.Function):
        return given.apply
    if not callable(given):
        raise ValueError(f"what is checked must be a torch.autograd.Function or a callable, got {given!r}")
    return given


def maker(make_inputs: Callable[..., Any], device: str = "cpu") -> Make:
    """`make(dtype, seed)` from a user's function, which may take `dtype`, `device` and `seed` or none of them.

    What it gives in another floating dtype is converted.
    """
    taken = inspect.signature(make_inputs).parameters
    everything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values())

    def make(dtype: torch.dtype, seed: int) -> Inputs:
        offered = {"dtype": dtype, "device": device, "seed": seed}
        given = make_inputs(**{name: value for name, value in offered.items() if everything or name in taken})
        arguments = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        return tuple(_as(t, dtype, device) for t in arguments)

    return make


def of_variant(
    spec: Spec, variant: str, kind: str, apply: Callable[..., Any], *, dtype: torch.dtype, workload: str, device: str
) -> Subject:
    """A variant of a Function with a Spec."""

    def making(name: str) -> Make:
        def make(dtype: torch.dtype, seed: int) -> Inputs:
            return spec.make_inputs(**spec.workloads[name], dtype=dtype, device=device, seed=seed)

        return make

    key = Key(spec.name, variant, workload, dtype_name(dtype), device)
    return Subject(
        f"{spec.name} ({variant})",
        apply,
        making(workload),
        spec.reference,
        Intent(
            surrogate=spec.surrogate is not None,
            surrogate_of=spec.surrogate,
            random=spec.random,
            mutates=spec.mutates,
            once_differentiable=spec.refuses_double_backward(variant),
            views=spec.views,
        ),
        dtype,
        workload,
        device,
        tuple(spec.tolerances),
        spec.tolerances,
        {name: making(name) for name in spec.workloads},
        tuple(promise for promise in spec.promised if promise.concerns(key)),
        spec.workloads[workload],
        written=kind not in ("eager", "compile", "native"),
        compiled=kind in ("compile", "fused"),
    )


def of_callable(
    given: Any,
    make_inputs: Callable[..., Any],
    *,
    reference: Callable[..., Any] | None = None,
    intent: Intent | None = None,
    promises: Sequence[str] = (),
    device: str = "cpu",
    who: str = "",
) -> Subject:
    """Anybody's Function (a torch.autograd.Function or any callable).

    promises: of numbers and `itemsize` alone, for there are no named sizes. Raises ValueError for what cannot be called
    or promised.
    """
    apply = callable_of(given)
    name = who or getattr(function_of(apply) or given, "__qualname__", "") or type(given).__name__
    return Subject(
        name,
        apply,
        maker(make_inputs, device),
        reference and callable_of(reference),
        intent or Intent(),
        device=device,
        promises=tuple(map(of_one_case, promises)),
    )


def _as(t: Any, dtype: torch.dtype, device: str) -> Any:
    if not isinstance(t, torch.Tensor):
        return t
    if t.is_floating_point() and t.dtype != dtype:
        return t.detach().to(device, dtype).requires_grad_(t.requires_grad)
    if t.device.type != device:
        return t.detach().to(device).requires_grad_(t.requires_grad)
    return t
