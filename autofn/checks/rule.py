"""What a rule is and what it finds: data. The rules themselves are one family a file beside this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..case import Case, Key, prepare
from ..records import FAILED, OK, UNAVAILABLE

if TYPE_CHECKING:
    from ..spec import Spec


@dataclass(frozen=True)
class Subject:
    """What is checked: one variant of a Function at one workload, dtype and device."""

    spec: Spec
    key: Key
    apply: Callable[..., Any]

    def case(self, seed: int = 0) -> Case:
        """Fresh inputs for the variant."""
        return prepare(self.spec, self.key, self.apply, seed)

    @property
    def who(self) -> str:
        return f"{self.key.function} ({self.key.variant})"


@dataclass(frozen=True)
class Outcome:
    """What a rule says of a subject. error: the worst deviation seen, where the rule measures one."""

    status: str
    message: str = ""
    error: float | None = None


def passed(error: float | None = None) -> Outcome:
    return Outcome(OK, error=error)


def violated(message: str, error: float | None = None) -> Outcome:
    return Outcome(FAILED, message, error)


def not_applicable(reason: str) -> Outcome:
    return Outcome(UNAVAILABLE, reason)


@dataclass(frozen=True)
class Rule:
    """One thing that a correct Function does.

    severity: "error" (wrong or leaking), "warning" (wasteful or fragile) or "info" (a capability).
    every_case: whether it is run for every dtype and workload, or once a variant, in float64 on the workload `tiny`.
    """

    id: str
    severity: str
    meaning: str
    run: Callable[[Subject], Outcome]
    every_case: bool = False
