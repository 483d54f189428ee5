"""torch.library.opcheck on every custom operator that a forward or backward dispatches, with its very arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from .rule import ERROR, FULL, INFO, WARNING, Finding, Rule, Seen
from .subject import Subject
from .tools.pure import seeded

# PyTorch's own operators are not to be judged here.
OWN = ("aten", "prim", "prims", "profiler", "quantized", "inductor", "higher_order", "rngprims", "mkldnn", "mkl")
DTYPES = (torch.float64, torch.float32, torch.bfloat16)

# What each test of opcheck looks for, and the way out.
MEANING = {
    "test_schema": (
        "its schema does not say what it does to its arguments",
        "name what it writes to in mutates_args (Tensor(a!) in the schema); return neither an argument nor a view",
    ),
    "test_autograd_registration": (
        "its gradient is not registered where autograd looks for it",
        "use torch.library.register_autograd, or register the kernel for the key Autograd",
    ),
    "test_faketensor": (
        "its fake kernel does not give the shape, strides or dtype that the real one gives",
        "make the fake kernel allocate exactly as the real one does: the same sizes, strides, dtype and device",
    ),
    "test_aot_dispatch_dynamic": (
        "compiled for any sizes it does not give what it gives in eager mode",
        "let the fake kernel compute its sizes from those of its inputs, and register the gradient",
    ),
}
FAKE_FIX = "register one with torch.library.register_fake (in C++: for the key Meta)"
# What opcheck raises where an operator has no fake kernel, and where its sizes depend on values, which is no fault.
NO_FAKE = ("no fake impl registered", "UnsupportedOperatorException")
DEPENDS_ON_DATA = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")


@dataclass(frozen=True)
class Call:
    """One call of an operator: its arguments as they were before it. how: what is told of them."""

    op: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: str = ""

    @property
    def key(self) -> str:
        """Equal for calls that differ in values alone."""
        kinds = tree_map_only(
            torch.Tensor,
            lambda t: (t.dtype, tuple(t.shape), t.stride(), t.requires_grad),
            (self.args, self.kwargs),
        )
        return f"{self.op} {kinds}"


def check_operators(subject: Subject) -> Iterator[Finding | Seen]:
    """Schema, registration of the gradient, and the fake kernel beside the real one, for transposed arguments too."""
    yield from _checked(_calls(subject), ("test_schema", "test_autograd_registration", "test_faketensor"))


def check_dispatch(subject: Subject) -> Iterator[Finding | Seen]:
    """Compiled for any sizes, outputs and gradients equal those of eager mode."""
    if subject.intent.random:
        raise NotImplementedError("the Function is random: compiled code draws other numbers")
    calls = [call for call in _calls(subject) if not call.how]
    yield from _checked(calls, ("test_aot_dispatch_dynamic",))


# Which operators are called


class _Dispatched(TorchDispatchMode):
    """Collects the operators that are dispatched below autograd, where arguments have no gradient."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled within it; to say so would import Dynamo, which takes more than a second."""
        return False

    def __init__(self, calls: dict[str, Call]) -> None:
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _noted(self.calls, func, func, args, kwargs or {}, tracked=False)


class _Called(TorchFunctionMode):
    """Collects the operators that are called by name, with arguments that autograd follows."""

    def __init__(self, calls: dict[str, Call]) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        op = _only_overload(func)
        if op is None:
            return func(*args, **(kwargs or {}))
        return _noted(self.calls, op, func, args, kwargs or {}, tracked=torch.is_grad_enabled())


def _only_overload(func: Any) -> torch._ops.OpOverload | None:
    """The operator that a call of `func` is, where that is plain."""
    if isinstance(func, torch._ops.OpOverload):
        return func
    one = isinstance(func, torch._ops.OpOverloadPacket) and len(func.overloads()) == 1
    return getattr(func, func.overloads()[0]) if one else None


def _noted(calls: dict[str, Call], op: Any, func: Any, args: Any, kwargs: Any, *, tracked: bool) -> Any:
    """What the call returns; it is noted, with its arguments as they were before, unless it raises."""
    if op.namespace in OWN:
        return func(*args, **kwargs)

    def copied(t: torch.Tensor) -> torch.Tensor:
        return t.detach().clone().requires_grad_(tracked and t.requires_grad)

    call = Call(op, *tree_map_only(torch.Tensor, copied, (tuple(args), dict(kwargs))))
    returned = func(*args, **kwargs)
    calls.setdefault(call.key, call)
    return returned


def _calls(subject: Subject) -> list[Call]:
    """Each operator with its arguments, in every dtype that the Function takes, and with transposed ones."""
    if subject.compiled:
        raise NotImplementedError("what a compiled graph calls is not seen")
    calls: dict[str, Call] = {}
    for dtype in subject.dtypes or DTYPES:
        _collect(subject, dtype, calls)
    if not calls:
        raise NotImplementedError("no custom operator is called")
    return [*calls.values(), *(other for call in calls.values() for other in _transposed(call))]


def _collect(subject: Subject, dtype: torch.dtype, calls: dict[str, Call]) -> None:
    """What a forward and backward call, up to the end or to an error, which is not to be judged here."""
    with seeded(), suppress(Exception), _Called(calls), _Dispatched(calls):
        subject.gradients(subject.inputs(dtype))


def _transposed(call: Call) -> Iterator[Call]:
    """The same values laid out by columns, where there is a matrix and the operator takes it so."""

    def by_columns(t: torch.Tensor) -> torch.Tensor:
        if t.dim() < 2 or min(t.shape[-2:]) < 2:
            return t
        return t.detach().mT.contiguous().mT.requires_grad_(t.requires_grad)

    args, kwargs = tree_map_only(torch.Tensor, by_columns, (call.args, call.kwargs))
    other = replace(call, args=args, kwargs=kwargs, how="for arguments laid out by columns")
    if other.key == call.key:
        return
    try:
        with torch.no_grad():
            call.op(*tree_map_only(torch.Tensor, torch.clone, args), **kwargs)
    except Exception:  # a clear refusal of such a layout
        return
    yield other


# What opcheck says


def _checked(calls: list[Call], tests: tuple[str, ...]) -> Iterator[Finding | Seen]:
    """The first test that each operator fails: one fault makes several fail."""
    failed = set()
    for call in calls:
        for test in tests:
            if call.op in failed:
                break
            error = _tested(call, test)
            if error is None:
                yield Seen(0.0)
            else:
                failed.add(call.op)
                yield _told(call, test, error)


def _tested(call: Call, test: str) -> BaseException | None:
    args, kwargs = tree_map_only(torch.Tensor, _copy, (call.args, call.kwargs))
    said = torch.library.opcheck(call.op, args, kwargs, test_utils=test, raise_exception=False)[test]
    return said if isinstance(said, BaseException) else None


def _copy(t: torch.Tensor) -> torch.Tensor:
    """Each test gets arguments of its own: a real kernel may write to them."""
    fresh = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)
    return fresh.copy_(t.detach()).requires_grad_(t.requires_grad)


def _told(call: Call, test: str, error: BaseException) -> Finding:
    wrong, fix = MEANING[test]
    said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if any(words in said for words in NO_FAKE):
        missing = "it has no fake kernel, so that torch.compile cannot trace it"
        return Finding(f"{missing} ({said})", str(call.op), fix=FAKE_FIX, severity=WARNING)
    severity = _severity(test, said)
    what = wrong if severity == ERROR else "opcheck could not try it to the end"
    how = f" {call.how}" if call.how else ""
    return Finding(f"{what}{how} ({test}: {said})", str(call.op), fix=fix, severity=severity)


def _severity(test: str, said: str) -> str:
    """Error where opcheck compared two things that differ; else it failed at something, perhaps at its own limit."""
    if any(words in said for words in DEPENDS_ON_DATA):
        return INFO
    compared = {"test_faketensor": "MetadataMismatchError", "test_aot_dispatch_dynamic": "AssertionError"}
    return ERROR if said.startswith(compared.get(test, "")) else WARNING


RULES = (
    Rule("opcheck", ERROR, "custom operators do what their schema and fake kernel say", check_operators),
    Rule("opcheck-dispatch", ERROR, "custom operators compile for any sizes", check_dispatch, level=FULL),
)
