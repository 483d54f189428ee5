"""Checks: what a correct Function must do. One family of rules a file; a finding is data."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ..records import Record
    from .rule import Outcome, Rule, Subject

# The reference in float64 on a large workload takes seconds and memory and finds what `small` finds.
WORKLOADS = ("tiny", "small")


def rules() -> list[Rule]:
    """All rules, found in the modules of this package."""
    modules = [importlib.import_module(f".{found.name}", __name__) for found in pkgutil.iter_modules(__path__)]
    return [rule for module in modules for rule in getattr(module, "RULES", ())]


def check(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """Every rule over every variant, as the tidy frame: phase "check", metric the rule's id, value the worst error.

    None means all. status is "ok", "failed" with the finding as reason, or "n/a" with the reason. Raises LookupError
    for an unknown Function, variant, dtype or device.
    """
    from .. import results

    found = records(functions, variants=variants, dtypes=dtypes, device=device)
    return results.frame(record for subject in found for record in subject)


def records(
    functions: Sequence[str] | None = None,
    *,
    variants: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    device: str = "cpu",
    conditions: Mapping[str, Any] | None = None,
    done: Iterable[Record] = (),
    progress: Callable[[int, int, str], None] = lambda done, total, label: None,
) -> Iterator[list[Record]]:
    """What `check` returns, subject by subject as each is through. What is among `done` is not checked again."""
    from ..compiled import forget

    work = list(_subjects(functions, variants, dtypes, device))
    known = {(record.variant, record.function, record.workload, record.dtype, record.metric) for record in done}
    for number, (make, chosen) in enumerate(work):
        progress(number, len(work), str(make.key))
        key = make.key
        waiting = [r for r in chosen if (key.variant, key.function, key.workload, key.dtype, r.id) not in known]
        if waiting:
            forget()
            yield [_record(key, rule, _run(rule, make), conditions or {}) for rule in waiting]
    progress(len(work), len(work), "")


def _subjects(
    functions: Sequence[str] | None, variants: Sequence[str] | None, dtypes: Sequence[str] | None, device: str
) -> Iterator[tuple[_Lazy, list[Rule]]]:
    from .. import registry
    from ..case import Key

    every_case = [rule for rule in rules() if rule.every_case]
    once = [rule for rule in rules() if not rule.every_case]
    chosen = list(functions) if functions else list(registry.names())
    known = {found.name for name in chosen for found in registry.variants(name)}
    known_dtypes = {dtype for name in chosen for dtype in registry.spec(name).dtypes}
    for name in variants or ():
        if name not in known:
            raise registry.unknown("there is no variant", name, sorted(known))
    for name in dtypes or ():
        if name not in known_dtypes:
            raise registry.unknown("there is no dtype", name, sorted(known_dtypes))
    if device not in registry.DEVICES:
        raise registry.unknown("there is no device", device, registry.DEVICES)
    for function in chosen:
        spec = registry.spec(function)
        for found in registry.variants(function):
            if variants and found.name not in variants:
                continue
            for dtype in spec.dtypes:
                if dtypes and dtype not in dtypes:
                    continue
                for workload in WORKLOADS:
                    yield _Lazy(Key(function, found.name, workload, dtype, device)), every_case
            if not dtypes or "float64" in dtypes:
                reason = (
                    "" if "float64" in spec.dtypes else f"{function} does not declare float64, which this rule needs"
                )
                yield _Lazy(Key(function, found.name, "tiny", "float64", device), reason), once


class _Lazy:
    """A subject that is loaded when it is checked, so that one that cannot be loaded is a row with its reason."""

    def __init__(self, key: Any, reason: str = "") -> None:
        self.key = key
        self.reason = reason

    def subject(self) -> Subject:
        """Raises NotImplementedError with the reason where the rule or the variant cannot run."""
        from .. import registry
        from .rule import Subject

        if self.reason:
            raise NotImplementedError(self.reason)
        apply = registry.load(self.key.function, self.key.variant, self.key.device)
        return Subject(registry.spec(self.key.function), self.key, apply)


def _run(rule: Rule, make: _Lazy) -> Outcome:
    from .rule import not_applicable, violated

    try:
        subject = make.subject()
    except NotImplementedError as error:
        return not_applicable(str(error))
    except Exception as error:  # a file that cannot even be imported is its variant's finding
        return violated(f"cannot be loaded: {type(error).__name__}: {error}")
    try:
        return rule.run(subject)
    except Exception as error:  # whatever a Function raises under a rule is that rule's finding
        return violated(f"{type(error).__name__}: {error}")


def _record(key: Any, rule: Rule, outcome: Outcome, conditions: Mapping[str, Any]) -> Record:
    from ..records import Record

    return Record(
        **asdict(key), phase="check", metric=rule.id, unit="", value=outcome.error,
        status=outcome.status, reason=outcome.message, source="check", **conditions,
    )  # fmt: skip
