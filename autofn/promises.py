"""What a Spec promises in words: `saved_new_bytes <= 4 * rows for cpp`, `speedup >= 1.2 at large`.

    QUANTITY <= EXPRESSION [for VARIANTS] [at WORKLOADS] [in PHASES or DTYPES] [on DEVICES]

Names after a clause are separated by commas; without one, all of its kind are meant, and by variants those that are
written by hand. The expression is arithmetic over the sizes of the workload and `itemsize`, the bytes of an element.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .records import Key
from .terms import DERIVED, DEVICES, PHASES, kind_of, unknown

AT_MOST, AT_LEAST = "<=", ">="


@dataclass(frozen=True)
class Quantity:
    """How it is bounded, the phases that it has, and those that are meant where none is named."""

    comparison: str = AT_MOST
    phases: tuple[str, ...] = ()
    meant: tuple[str, ...] = ()


QUANTITIES = {
    **dict.fromkeys(("saved_bytes", "saved_new_bytes", "held_bytes", "hidden_bytes", "leaked_bytes"), Quantity()),
    **dict.fromkeys(("peak_bytes", "error"), Quantity(AT_MOST, ("forward", "backward"), ("forward", "backward"))),
    "speedup": Quantity(AT_LEAST, PHASES, ("forward_backward",)),
}
DTYPE = re.compile(r"(float|bfloat|complex)\d+")
OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil": math.ceil}
CLAUSES = ("for", "at", "in", "on")
WAY_OUT = f"it is made of numbers, sizes, + - * / // and {', '.join(f'{name}(...)' for name in CALLS)}"


@dataclass(frozen=True)
class Promise:
    """A bound of a quantity in some cases. Empty clauses mean all, and of the variants those written by hand."""

    text: str
    quantity: str
    bound: ast.expr
    variants: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()

    def concerns(self, key: Key) -> bool:
        """Whether it is about this case."""
        mine = key.variant in self.variants if self.variants else kind_of(key.variant) not in (None, "native")
        said = ((self.workloads, key.workload), (self.dtypes, key.dtype), (self.devices, key.device))
        return mine and all(not names or name in names for names, name in said)

    def limit(self, sizes: Mapping[str, Any], itemsize: int) -> float:
        """The bound for a workload. Raises ValueError where the expression names what is no size, or no number."""
        try:
            found = _value(self.bound, {**sizes, "itemsize": itemsize})
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"the promise {self.text!r}: {error}") from error
        return float(found)

    def keeps(self, value: float, limit: float) -> bool:
        """Whether a value is on the right side of the limit."""
        return value <= limit if QUANTITIES[self.quantity].comparison == AT_MOST else value >= limit


def parse(text: str) -> Promise:
    """The promise of a text. Raises ValueError that says which part is wrong, and what may stand there."""
    try:
        return _parsed(text)
    except (ValueError, LookupError) as error:
        raise ValueError(f"the promise {text!r}: {error}") from error


def _parsed(text: str) -> Promise:
    found = re.fullmatch(r"\s*(\w+)\s*([<>=!]+)\s*(.*)", text)
    if found is None:
        raise ValueError("must be like `saved_new_bytes <= 4 * rows` or `speedup >= 1.2 at large`")
    quantity, comparison, rest = found.groups()
    if quantity not in QUANTITIES:
        raise unknown("there is no quantity", quantity, QUANTITIES)
    kind = QUANTITIES[quantity]
    if comparison != kind.comparison:
        raise ValueError(f"{quantity} is promised with {kind.comparison}, got {comparison}")
    expression, *words = re.split(rf"\s+({'|'.join(CLAUSES)})\s+", rest.rstrip())
    clauses = _clauses(words)
    inside = clauses.pop("in", ())
    dtypes = tuple(name for name in inside if DTYPE.fullmatch(name))
    named = tuple(name for name in inside if name not in dtypes)
    _must_be("phase", named, kind.phases, f"{quantity} has no")
    _must_be("device", clauses.get("on", ()), DEVICES, "there is no")
    return Promise(
        text, quantity, _expression(expression), clauses.get("for", ()), clauses.get("at", ()),
        named or kind.meant, dtypes, clauses.get("on", ()),
    )  # fmt: skip


def _clauses(words: list[str]) -> dict[str, tuple[str, ...]]:
    """{"at": ("tiny", "small")} of ["at", "tiny, small"]."""
    found: dict[str, tuple[str, ...]] = {}
    for clause, names in zip(words[::2], words[1::2], strict=True):
        if clause in found:
            raise ValueError(f"says {clause!r} twice; separate names by commas")
        found[clause] = tuple(name.strip() for name in names.split(","))
        if not all(re.fullmatch(r"\w+", name) for name in found[clause]):
            raise ValueError(f"after {clause!r} stand names separated by commas, got {names!r}")
    return found


def _must_be(what: str, names: tuple[str, ...], known: Iterable[str], who: str) -> None:
    for name in names:
        if name not in known:
            raise unknown(f"{who} {what}", name, known if tuple(known) else ("none",))


def _expression(text: str) -> ast.expr:
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{text!r} is no expression; {WAY_OUT}") from error
    for node in ast.walk(found):
        _must_be_arithmetic(node)
    return found


def _must_be_arithmetic(node: ast.AST) -> None:
    """Raises ValueError for what the expression cannot hold."""
    match node:
        case ast.Constant(value=int() | float()) | ast.Name() | ast.Load() | ast.operator() | ast.unaryop():
            return
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            return
        case ast.UnaryOp(op=ast.USub()):
            return
        case ast.Call(func=ast.Name(id=name), args=[_, *_], keywords=[]) if name in CALLS:
            return
    raise ValueError(f"{ast.unparse(node)!r} cannot stand in the expression; {WAY_OUT}")


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            if name not in sizes:
                raise ValueError(str(unknown("there is no size", name, sizes)))
            if not isinstance(sizes[name], (int, float)):
                raise ValueError(f"the size {name!r} is {sizes[name]!r} here, which is no number")
            return sizes[name]
        case ast.BinOp(left, op, right):
            return OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.UnaryOp(operand=operand):
            return -_value(operand, sizes)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            try:
                return CALLS[name](*(_value(each, sizes) for each in arguments))
            except TypeError as error:
                raise ValueError(f"{ast.unparse(node)!r}: {error}") from error
    raise AssertionError(f"{ast.dump(node)} was let through")


def validate(texts: Iterable[str], workloads: Mapping[str, Mapping[str, Any]], dtypes: Iterable[str]) -> None:
    """Raises ValueError for a promise that is none, or that names a workload, a dtype or a size that there is not."""
    if isinstance(texts, str):
        raise ValueError(f"promises must be several texts, got one: write promises=({texts!r},)")
    for promise in map(parse, texts):
        try:
            _must_be("workload", promise.workloads, workloads, "there is no")
            _must_be("dtype", promise.dtypes, dtypes, "it declares no")
        except LookupError as error:
            raise ValueError(f"the promise {promise.text!r}: {error}") from error
        for workload, sizes in workloads.items():
            if not promise.workloads or workload in promise.workloads:
                promise.limit(sizes, 4)


def must_name_variants(texts: Iterable[str], function: str, variants: Iterable[str]) -> None:
    """Raises ValueError for a promise for a variant that the Function lacks: it would never be judged."""
    known = [*variants, *DERIVED]
    for promise in map(parse, texts):
        for name in promise.variants:
            if name not in known:
                raise ValueError(
                    f"{function}: the promise {promise.text!r}: {unknown('there is no variant', name, known)}"
                )


def of_one_case(text: str) -> Promise:
    """The promise of a Function without a Spec. Raises ValueError for a clause: there is one variant and one case."""
    promise = parse(text)
    if promise.variants or promise.workloads or promise.dtypes or promise.devices:
        raise ValueError(
            f"the promise {text!r}: a Function without a Spec has one case; leave out 'for', 'at', 'on' and dtypes"
        )
    promise.limit({}, 4)
    return promise
