"""Checks: what a correct Function must do. One family of rules a file; a finding is data."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..records import Record
    from .checked import Checked
    from .plan import Check
    from .rule import Rule

Progress = Callable[[int, int, str], None]


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, found in the modules of this package, in the order of the modules' names."""
    modules = [importlib.import_module(f".{found.name}", __name__) for found in pkgutil.iter_modules(__path__)]
    return tuple(rule for module in modules for rule in getattr(module, "RULES", ()))


def check(
    what: Callable[..., Any] | Sequence[str] | None = None,
    make_inputs: Callable[..., Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: bool | Callable[..., Any] = False,
    random: bool = False,
    mutates: Sequence[int] = (),
    once_differentiable: bool = False,
    promises: Sequence[str] = (),
    variants: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    level: str = "quick",
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    suppress: Mapping[str, str] | None = None,
    isolate: bool = True,
) -> Checked:
    """Every rule over a Function of yours, or over the variants of those in the registry.

    what: a torch.autograd.Function class or any callable, and then make_inputs gives its arguments (it may take
    `dtype`, `device`, `seed`); or names of the registry's Functions, None for all, with variants and dtypes to choose
    among them. reference: the same in PyTorch's own operations; without it the backward is held against the forward
    itself. surrogate, random, mutates, once_differentiable: what the Function intends; surrogate may be the function
    whose gradient it has instead. promises: such as "saved_new_bytes <= 0"; those of the registry stand in their Specs.
    level: "quick", or "full" with all that compiles. select, ignore: rules by name or
    pattern. suppress: {rule: reason}. isolate: run the rules in worker processes, so that a crash is a finding.

    Raises LookupError for an unknown name, ValueError for arguments that do not go together.
    """
    from . import plan
    from .checked import Checked
    from .intent import Intent
    from .subject import of_callable

    chosen = plan.chosen(select, ignore, level)
    known = {rule.id for rule in rules()}
    for name in suppress or ():
        if name not in known:
            raise plan.unknown("there is no rule", name, known)
    if make_inputs is None:
        if callable(what):
            raise ValueError("check: make_inputs must be given with a Function of your own: it makes the arguments")
        work = plan.of_registry(what, variants=variants, dtypes=dtypes, device=device, rules=chosen, level=level)
    else:
        intent = Intent(
            surrogate=bool(surrogate),
            surrogate_of=surrogate if callable(surrogate) else None,
            random=random,
            mutates=tuple(mutates),
            once_differentiable=once_differentiable,
        )
        subject = of_callable(what, make_inputs, reference=reference, intent=intent, promises=promises, device=device)
        work = [plan.of_subject(subject, chosen)]
    work = [plan.with_suppressed(checks, suppress or {}) for checks in work]
    return Checked(tuple(in_order(work, records(work, isolate=isolate))))


def records(
    work: Sequence[Sequence[Check]],
    *,
    conditions: Mapping[str, Any] | None = None,
    done: Iterable[Record] = (),
    progress: Progress = lambda done, total, label: None,
    isolate: bool = True,
) -> Iterator[Record]:
    """The record of each check as it is through; one worker a list. What is among `done` is not run again.

    isolate: workers in processes of their own, as many at a time as there are cores.
    """
    from . import runner
    from .checked import case_of, record_of

    known = {(case_of(record), record.metric) for record in done}
    waiting = [[each for each in checks if (each.key, each.job.rule.id) not in known] for checks in work]
    total = sum(map(len, work))
    ahead = total - sum(map(len, waiting))
    jobs = [[each.job for each in checks] for checks in waiting]
    for which, number, outcome in runner.run_all(jobs, isolated=isolate):
        each = waiting[which][number]
        progress(ahead, total, f"{each.key.function} ({each.key.variant})")
        yield record_of(each, outcome, conditions or {})
        ahead += 1
    progress(total, total, "")


def in_order(work: Sequence[Sequence[Check]], found: Iterable[Record]) -> list[Record]:
    """The records in the order of the checks that they are of."""
    from .checked import case_of

    place = {(each.key, each.job.rule.id): n for n, each in enumerate(each for checks in work for each in checks)}
    return sorted(found, key=lambda record: place.get((case_of(record), record.metric), len(place)))
