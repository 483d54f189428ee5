"""Autocast: the values of a call under torch.autocast, and which precision forward and backward compute in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .rule import ERROR, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.comparing import Difference, difference, same_bits
from .tools.pure import Pure, Tensors, classes, deliberate, pure, seeded, told

# Autocast rounds inputs of matrix products to 8 bits: a hundred such roundings of the largest element, and ten times
# what rounding the inputs alone changes.
SHARE, SENSITIVITY = {torch.bfloat16: 0.2, torch.float16: 0.05}, 10
HALVES = (torch.bfloat16, torch.float16)
# The operators that autocast casts, by their names in aten.
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "matmul", "linear", "mv", "addmv", "dot")

FIX = (
    'decorate forward with torch.amp.custom_fwd(device_type="...") and backward with torch.amp.custom_bwd, both; '
    "or cast_inputs=torch.float32 to compute in float32"
)


class Products(TorchDispatchMode):
    """The 16-bit dtypes that matrix products are computed in within it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled within it; to say so would import Dynamo, which takes more than a second."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in PRODUCTS:
            self.dtypes |= {t.dtype for t in args if isinstance(t, torch.Tensor) and t.dtype in HALVES}
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Pass:
    """What one forward and backward gave."""

    outputs: Tensors
    gradients: tuple[torch.Tensor | None, ...]

    @property
    def all(self) -> tuple[torch.Tensor | None, ...]:
        return (*self.outputs, *self.gradients)


def autocast(subject: Subject) -> Iterator[Finding | Seen]:
    """Under autocast the forward and the backward run, in one precision, with values near those without it."""
    alone = list(_decorators(subject))
    yield from alone
    if alone:
        return
    function = _plain(subject)
    want = _passed(function, function.leaves())
    slack = _sensitivities(function, want)
    for dtype in HALVES if subject.device == "cuda" else (torch.bfloat16,):
        found = list(_under(function, dtype, want, slack))
        yield from found
        if any(isinstance(each, Finding) for each in found):
            return


# How it is written


def _decorators(subject: Subject) -> Iterator[Finding]:
    """custom_bwd asks ctx for what custom_fwd has written there: it cannot stand alone."""
    for each in _classes(subject):
        forward, backward = _decorated(each.forward, "decorate_fwd"), _decorated(each.backward, "decorate_bwd")
        if backward and not forward:
            message = f"{each.__name__} has custom_bwd on its backward but no custom_fwd on its forward"
            yield Finding(message, "backward", fix="decorate the forward with torch.amp.custom_fwd as well")
        if forward and not backward:
            message = f"{each.__name__} has custom_fwd on its forward but no custom_bwd on its backward"
            consequence = "the backward runs under whatever autocast there is where it is called"
            fix = "decorate the backward with torch.amp.custom_bwd as well"
            yield Finding(f"{message}: {consequence}", "backward", fix=fix, severity=_alone(each))


def _alone(function: type[torch.autograd.Function]) -> str:
    """With cast_inputs the forward computes in one dtype anyhow, and saves tensors of that dtype."""
    names = function.forward.__code__.co_freevars
    cells = dict(zip(names, function.forward.__closure__ or (), strict=True))
    return INFO if "cast_inputs" in cells and cells["cast_inputs"].cell_contents is not None else WARNING


def _decorated(method: Any, name: str) -> bool:
    code = getattr(method, "__code__", None)
    return code is not None and code.co_name == name and code.co_filename == torch.amp.autocast_mode.__file__


def _classes(subject: Subject) -> tuple[type[torch.autograd.Function], ...]:
    try:
        return classes(subject)
    except Exception:  # other rules report a forward that raises
        return ()


# How it runs


def _plain(subject: Subject) -> Pure:
    if subject.compiled:
        raise NotImplementedError("a graph compiled for one autocast state is compiled again for another")
    if subject.intent.random:
        raise NotImplementedError("the Function is random: under autocast it may draw other numbers")
    return pure(subject, torch.float32)


def _passed(function: Pure, leaves: Tensors, dtype: torch.dtype | None = None) -> Pass:
    """The forward under autocast to a dtype (None: without), the backward outside of it, as PyTorch advises."""
    return _watched(function, leaves, dtype, (nullcontext(), nullcontext()))


def _watched(
    function: Pure,
    leaves: Tensors,
    dtype: torch.dtype | None,
    around: tuple[AbstractContextManager[Any], AbstractContextManager[Any]],
) -> Pass:
    """The same, each direction inside a context."""
    tracked = tuple(t.detach().clone().requires_grad_() for t in leaves)
    casting = torch.autocast(function.subject.device, dtype=dtype, enabled=dtype is not None, cache_enabled=False)
    with seeded(), around[0], casting:
        outputs = function(*tracked)
    # Copies: some backwards write to their grad_output.
    pairs = zip(outputs, function.weights, strict=True)
    chosen = [(out, w.to(out.dtype, copy=True)) for out, w in pairs if out.requires_grad]
    outs, weights = zip(*chosen, strict=True)
    with seeded(), around[1]:
        grads = torch.autograd.grad(outs, tracked, weights, allow_unused=True)
    return Pass(tuple(out.detach() for out in outputs), grads)


def _sensitivities(function: Pure, want: Pass) -> list[float]:
    """How much each output and gradient changes when the inputs are rounded to bfloat16."""
    rounded = _passed(function, tuple(_rounded(t) for t in function.leaves()))
    return [
        0.0 if a is None or b is None or not a.numel() else float((a - b).abs().double().nan_to_num().max())
        for a, b in zip(want.all, rounded.all, strict=True)
    ]


def _rounded(t: torch.Tensor) -> torch.Tensor:
    return t if t.dtype.is_complex else t.to(torch.bfloat16).to(t.dtype)


def _under(function: Pure, dtype: torch.dtype, want: Pass, slack: list[float]) -> Iterator[Finding | Seen]:
    name = str(dtype).removeprefix("torch.")
    try:
        got = _passed(function, function.leaves(), dtype)
    except Exception as error:  # mixed dtypes, most often
        yield _raised(function.subject, name, error)
        return
    if same_bits(got.all, want.all):
        yield Seen(0.0)
        return
    yield from _precisions(function, dtype, name)
    labels = [f"output {place}" for place in function.kept] + [f"gradient {at}" for at in range(len(want.gradients))]
    for label, mine, right, moved in zip(labels, got.all, want.all, slack, strict=True):
        if mine is None or right is None:
            continue
        found = _far(mine, right, SHARE[dtype], moved)
        if found is not None:
            yield found.finding(f"under autocast to {name} the value is far from the one without it", label, FIX)
            return
        yield Seen(0.0)


def _far(mine: torch.Tensor, right: torch.Tensor, share: float, moved: float) -> Difference | None:
    finite = right[right.isfinite()].abs()
    size = float(finite.max()) if finite.numel() else 0.0
    return difference(mine, right, 0.0, share * size + SENSITIVITY * moved, only_finite=True)


def _raised(subject: Subject, name: str, error: Exception) -> Finding:
    message = f"under autocast to {name} it raises {told(error)}"
    claimed = any(_decorated(each.forward, "decorate_fwd") for each in _classes(subject))
    severity = ERROR if claimed and not deliberate(error) else INFO
    return Finding(message, "autocast", fix=FIX, severity=severity)


def _precisions(function: Pure, dtype: torch.dtype, name: str) -> Iterator[Finding]:
    """A backward in the other 16-bit dtype than the forward has another range, or less precision."""
    watched = (Products(), Products())
    _watched(function, function.leaves(), dtype, watched)
    forward, backward = (each.dtypes for each in watched)
    if not forward or not backward - forward:
        return
    computed, ran = (
        " and ".join(sorted(str(each).removeprefix("torch.") for each in dtypes))
        for dtypes in (backward - forward, forward)
    )
    yield Finding(
        f"under autocast to {name} the backward computes matrix products in another 16-bit dtype than the forward",
        "backward",
        computed,
        ran,
        fix="use torch.amp.custom_fwd and custom_bwd, which hand on the forward's dtype; name no dtype in the backward",
    )


RULES = (Rule("autocast", ERROR, "under autocast it runs, in one precision, with values near those without", autocast),)
