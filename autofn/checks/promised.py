"""Whether a Function keeps what its Spec promises of bytes and errors; of times, `autofn bench` gives a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..case import Case
from ..observe import accuracy, memory
from ..observe.counters import counter
from ..observe.saved import ledger, saved_bytes, saved_new_bytes
from ..promises import Promise
from .rule import Finding, Rule
from .subject import Subject
from .tools.passes import case_of, forward, keeping_the_generators, tracked, working

SAVED = {"saved_bytes": saved_bytes, "saved_new_bytes": saved_new_bytes}


def promises(subject: Subject) -> Iterator[Finding]:
    """The bytes and errors that are promised, at the subject's workload and dtype."""
    if not subject.promises:
        raise NotImplementedError("nothing is promised of this case")
    judged = [promise for promise in subject.promises if promise.quantity != "speedup"]
    if not judged:
        raise NotImplementedError("times alone are promised of this case: `autofn bench` judges them")
    observed = _observed(subject, {promise.quantity for promise in judged})
    for promise in judged:
        yield from _judged(subject, promise, observed[promise.quantity])


def _observed(subject: Subject, quantities: set[str]) -> dict[str, dict[str, float]]:
    """Each quantity by phase, where it has several, else by an empty string."""
    working(subject)
    with keeping_the_generators():
        case = case_of(subject, forward(subject))
        found: dict[str, Any] = {"error": _error(subject, case)} if "error" in quantities else {}
        # What the hooks see takes a forward; what the allocator saw, collections of garbage.
        if quantities <= {"error", *SAVED}:
            entries = ledger(case)
            found |= {name: count(entries) for name, count in SAVED.items()}
        else:
            found |= asdict(memory.measure(case, counter(subject.device)))
    return {name: found[name] if isinstance(found[name], dict) else {"": found[name]} for name in quantities}


@dataclass(frozen=True)
class _Formula:
    """What `accuracy.error` asks for; the calls copy what is written to themselves."""

    reference: Callable[..., Any]
    surrogate: Callable[..., Any] | None
    random: bool
    mutates: tuple[int, ...] = ()


def _error(subject: Subject, case: Case) -> dict[str, float]:
    if subject.reference is None:
        raise NotImplementedError("there is no reference that an error could be taken from")
    surrogate = subject.intent.surrogate_of
    truth = _Formula(
        tracked(subject, subject.reference), surrogate and tracked(subject, surrogate), subject.intent.random
    )
    return accuracy.error(truth, case)


def _judged(subject: Subject, promise: Promise, observed: dict[str, float]) -> Iterator[Finding]:
    """observed: by phase, where the quantity has several."""
    limit = promise.limit(subject.sizes, subject.dtype.itemsize)
    for phase, seen in observed.items():
        if (not phase or phase in promise.phases) and not promise.keeps(seen, limit):
            yield Finding(
                f"the promise {promise.text!r} is broken",
                f"{phase} {promise.quantity}".strip(),
                f"{seen:.3g}" if promise.quantity == "error" else f"{seen:.0f} bytes",
                f"at most {limit:g}",
                fix="keep it, or promise what holds",
            )


RULES = (Rule("promises", "error", "what is promised of bytes and errors is kept", promises, every_case=True),)
