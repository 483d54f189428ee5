"""What a rule is and what it finds: data. The rules themselves are one family a file beside this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..records import FAILED, OK, UNAVAILABLE

if TYPE_CHECKING:
    from .subject import Subject

# error: wrong or leaking. warning: wasteful or fragile. info: a capability that is not there, or a fact to know.
ERROR, WARNING, INFO = "error", "warning", "info"
SEVERITIES = (ERROR, WARNING, INFO)
QUICK, FULL = "quick", "full"
LEVELS = (QUICK, FULL)


@dataclass(frozen=True)
class Finding:
    """One thing that a Function does wrong, or that its user should know.

    message: what was seen, in a sentence. where: the input, output or gradient, such as "gradient of input 0".
    observed, expected: the two that disagree, as text. error: the largest difference. fix: the way out.
    rule, severity: filled in by the runner from the rule; a rule may give a lower severity itself.
    """

    message: str
    where: str = ""
    observed: str = ""
    expected: str = ""
    error: float | None = None
    fix: str = ""
    severity: str = ""
    rule: str = ""

    def __str__(self) -> str:
        compared = f" (observed {self.observed}, expected {self.expected})" if self.observed or self.expected else ""
        return f"{self.where}: {self.message}{compared}" if self.where else f"{self.message}{compared}"


@dataclass(frozen=True)
class Seen:
    """The largest deviation that a rule saw and let pass."""

    error: float


@dataclass(frozen=True)
class Outcome:
    """What a rule says of a subject.

    status: "ok", "failed" where a finding is an error, or "n/a" with the reason. Warnings and infos leave it "ok".
    error: the worst deviation seen, where the rule measures one. seconds: how long the rule ran.
    """

    status: str
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    error: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Rule:
    """One thing that a correct Function does.

    id: lower case with hyphens. meaning: one line, what a correct Function does. run: yields findings, and what it has
    seen where it measures; raises NotImplementedError with the reason where the rule does not apply.
    every_case: whether it is run for every dtype and workload, or once, in float64 on the smallest workload.
    level: "quick", or "full" where it compiles or takes more than a fraction of a second.
    written: whether it looks at how a Function is written, which says nothing of a composition of PyTorch's operations.
    """

    id: str
    severity: str
    meaning: str
    run: Callable[[Subject], Iterable[Finding | Seen]]
    every_case: bool = False
    level: str = QUICK
    written: bool = False

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise ValueError(f"{self.id}: severity must be one of {', '.join(SEVERITIES)}, got {self.severity!r}")
        if self.level not in LEVELS:
            raise ValueError(f"{self.id}: level must be one of {', '.join(LEVELS)}, got {self.level!r}")


def not_applicable(reason: str) -> Outcome:
    return Outcome(UNAVAILABLE, reason=reason)


def outcome_of(rule: Rule, found: Iterable[Finding | Seen]) -> Outcome:
    """What a rule's findings come to."""
    from dataclasses import replace

    listed = list(found)
    findings = tuple(
        replace(each, rule=rule.id, severity=each.severity or rule.severity)
        for each in listed
        if isinstance(each, Finding)
    )
    errors = [each.error for each in listed if each.error is not None]
    status = FAILED if any(each.severity == ERROR for each in findings) else OK
    return Outcome(status, findings, "; ".join(map(str, findings)), max(errors, default=None))
