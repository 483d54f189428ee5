"""What a Function declares about itself: frozen data, read by checks, measurement, traces and reports alike."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch

from .promises import Promise, parse, validate
from .terms import PHASES, check_name, kind_of

PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*(==\w[\w.!+-]*)?")
REQUIRED_WORKLOADS = ("tiny", "small", "large")

Workload = Mapping[str, Any]
"""Named sizes and arguments, handed to `make_inputs` as keywords."""

Cost = Callable[[str, Workload, int], int]
"""`(phase, workload, itemsize)`: what a phase costs at least, whatever the variant; itemsize in bytes."""


@dataclass(frozen=True)
class Tolerance:
    """How far a result in one dtype may lie from the float64 reference: abs(got - want) <= atol + rtol * abs(want).

    rtol: of the size of the true value.
    atol: beside it; what is allowed where the true value is 0.
    reason: where the two numbers come from, such as how many roundings, or the worst error of how many seeds.
    """

    rtol: float
    atol: float
    reason: str

    def __post_init__(self) -> None:
        if self.rtol < 0 or self.atol < 0:
            raise ValueError(f"Tolerance: rtol and atol must not be negative, got rtol={self.rtol}, atol={self.atol}")
        if not self.reason.strip():
            raise ValueError("Tolerance: a reason must be given, got an empty one; say where the number comes from")


@dataclass(frozen=True)
class Spec:
    """A Function: its formula, its inputs, and what every variant of it promises.

    name: lower case, digits and underscores: results are keyed by it. Of a folder of the package it is the folder's.
    reference: the formula in stock PyTorch operations; autograd derives its backward. In float64 it is the truth.
    make_inputs: `(**workload, dtype, device, seed=0) -> tuple` of arguments; floating tensors are leaves that
        require grad.
    workloads: at least `tiny` (at most 1,000 elements), `small` (fits the L2 cache) and `large` (4M elements or more).
    tolerances: one a dtype; these are the dtypes that the Function supports.
    version: raise it when the inputs change: older results no longer compare.
    once_differentiable: the variants whose second derivative is refused with an error; all others must get it right.
    random: two calls differ by design; both are then given the same seed where they are compared.
    surrogate: what the gradient equals where it is intentionally not the derivative (straight-through estimators).
    views: positions of the arguments of which an output is a view.
    mutates: positions of the arguments that the forward writes to.
    integers: positions of the arguments that hold integers, such as class indices.
    variants: those that are not files of a folder, by name (python, fused, cpp, triton, native, or one of these with a
        suffix, such as python_masked): a callable, a torch.autograd.Function, or the name of one such as
        "my_ops.kernels:swish", which is imported when it is needed.
    only_on: the one device type on which a variant exists, such as {"triton": "cuda"}.
    requires: installed packages that the `variants` of other people's come from, such as ("entmax==1.3",): where one is
        missing, or is of another version, these variants are n/a and the reason says what to install.
    without: variants that do not exist for this Function, each with the reason, such as {"compile": "a scan ..."}.
    suppress: rules of `autofn check` whose findings do not count, each with the reason; those of one variant only by
        "special-values (native)".
    moved_bytes: the bytes that a phase must at least move: each input read once, each output written once. In a
        backward these are grad_outputs and the inputs that gradients depend on, and the gradients.
    operations: the floating point operations that a phase must at least do; `of_phase` helps with both.
    promises: what must hold of the variants written by hand (python, fused, cpp, triton), in words, such as
        "saved_new_bytes <= 4 * rows" or "speedup >= 1.2 for cpp at large"; see `promises`. Check and bench judge them.

    Raises ValueError where a declaration contradicts itself, naming the Function and the rule.
    """

    name: str
    reference: Callable[..., Any]
    make_inputs: Callable[..., tuple[Any, ...]]
    workloads: Mapping[str, Workload]
    tolerances: Mapping[torch.dtype, Tolerance]
    version: str
    once_differentiable: frozenset[str] = frozenset()
    random: bool = False
    surrogate: Callable[..., Any] | None = None
    views: tuple[int, ...] = ()
    mutates: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    variants: Mapping[str, Any] = field(default_factory=dict)
    only_on: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)
    suppress: Mapping[str, str] = field(default_factory=dict)
    moved_bytes: Cost | None = None
    operations: Cost | None = None
    promises: tuple[str, ...] = ()

    required_workloads: ClassVar[tuple[str, ...]] = REQUIRED_WORKLOADS

    def __post_init__(self) -> None:
        check_name(self.name)
        missing = [workload for workload in self.required_workloads if workload not in self.workloads]
        if missing:
            raise ValueError(
                f"{self.name}: workloads must hold {', '.join(self.required_workloads)}, got "
                f"{', '.join(self.workloads) or 'none'}; add {', '.join(missing)}"
            )
        if not self.tolerances:
            raise ValueError(f"{self.name}: tolerances must name at least one dtype, got none")
        if not self.version:
            raise ValueError(f"{self.name}: version must not be empty; start with '1'")
        for variant in self.variants:
            if kind_of(variant) is None:
                raise ValueError(
                    f"{self.name}: a variant is called native, python, fused, cpp or triton, or one of these with a "
                    f"suffix such as python_masked, got {variant!r}"
                )
        self._check_requires()
        for rule, reason in self.suppress.items():
            if not reason.strip():
                raise ValueError(f"{self.name}: suppress must give the reason why {rule} does not count")
        for cost in ("moved_bytes", "operations"):
            self._check_cost(cost, getattr(self, cost))
        try:
            validate(self.promises, self.workloads, self.dtypes)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def _check_requires(self) -> None:
        if isinstance(self.requires, str):
            raise ValueError(f"{self.name}: requires must be a tuple of packages, got the text {self.requires!r}")
        for package in self.requires:
            if not PACKAGE.fullmatch(package):
                raise ValueError(f"{self.name}: requires must hold NAME or NAME==VERSION, got {package!r}")

    def _check_cost(self, name: str, cost: Cost | None) -> None:
        if cost is None:
            return
        if not callable(cost):
            raise ValueError(f"{self.name}: {name} must be called with phase, workload and itemsize, got {cost!r}")
        for phase, (workload, sizes) in itertools.product(PHASES, self.workloads.items()):
            found = cost(phase, sizes, 4)
            if not isinstance(found, int) or found < 0:
                raise ValueError(
                    f"{self.name}: {name} must be a whole number from 0 on, got {found!r} for {phase} of {workload}"
                )

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The supported dtypes by name, such as ("float32", "bfloat16")."""
        return tuple(dtype_name(dtype) for dtype in self.tolerances)

    @cached_property
    def promised(self) -> tuple[Promise, ...]:
        """The promises, read."""
        return tuple(map(parse, self.promises))

    def tolerance(self, dtype: torch.dtype) -> Tolerance:
        """The tolerance of `dtype`. Raises LookupError for a dtype that the Function does not declare."""
        if dtype not in self.tolerances:
            raise LookupError(f"{self.name} has no dtype {dtype_name(dtype)}; it has {', '.join(self.dtypes)}")
        return self.tolerances[dtype]

    def refuses_double_backward(self, variant: str) -> bool:
        """Whether `variant` declares that its second derivative is an error."""
        return variant in self.once_differentiable


def of_phase(phase: str, *, forward: int, backward: int) -> int:
    """The cost of a phase from those of the two passes: a training step has both. Raises LookupError for no phase."""
    if phase not in PHASES:
        raise LookupError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")
    return {"backward": backward, "forward_backward": forward + backward}.get(phase, forward)


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float32` -> "float32"."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """`"float32"` -> torch.float32. Raises LookupError for a name that is no torch dtype."""
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise LookupError(f"torch has no dtype {name!r}; common ones are float32, bfloat16, float64, float16")
    return found
