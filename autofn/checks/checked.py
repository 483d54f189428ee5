"""What a check gave: every rule's outcome on every case, as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..records import OK, UNAVAILABLE, Key, Record
from .rule import ERROR, INFO, WARNING, Finding

if TYPE_CHECKING:
    import pandas as pd

    from .plan import Check
    from .rule import Outcome


@dataclass(frozen=True)
class Checked:
    """The records of one check, a rule on a case each. Printing it lists the findings."""

    records: tuple[Record, ...]

    @property
    def findings(self) -> list[Finding]:
        """Every finding that is not suppressed, errors first."""
        found = [finding for record in self.records for finding in findings_of(record)]
        return sorted(found, key=lambda finding: (ERROR, WARNING, INFO).index(finding.severity))

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == ERROR]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == WARNING]

    @property
    def infos(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == INFO]

    @property
    def frame(self) -> pd.DataFrame:
        """The tidy frame: phase "check", metric the rule's id, value the worst error, status, reason."""
        from .. import results

        return results.frame(self.records)

    def __str__(self) -> str:
        lines = [f"{finding.severity} {finding.rule}: {finding}" for finding in self.findings]
        ran = sum(record.status != UNAVAILABLE for record in self.records)
        return "\n".join([*lines, f"{ran} checks, {len(self.errors)} errors, {len(self.warnings)} warnings"])


def record_of(check: Check, outcome: Outcome, conditions: Mapping[str, Any]) -> Record:
    """The outcome of a check as a record; a suppressed one is ok, and says that it is suppressed and why."""
    suppressed = check.suppressed if outcome.findings else ""
    detail: dict[str, Any] = {"seconds": round(outcome.seconds, 4)}
    if outcome.findings:
        detail["findings"] = [_plain(finding) for finding in outcome.findings]
    if suppressed:
        detail["suppressed"] = suppressed
    reason = f"suppressed ({suppressed}): {outcome.reason}" if suppressed else outcome.reason
    return Record(
        **asdict(check.key), phase="check", metric=check.job.rule.id, unit="", value=_finite(outcome.error),
        status=OK if suppressed else outcome.status, reason=reason, detail=detail, source="check", **conditions,
    )  # fmt: skip


def findings_of(record: Record) -> list[Finding]:
    """The findings of a record that count; none where they are suppressed."""
    if "suppressed" in record.detail:
        return []
    return all_findings_of(record)


def all_findings_of(record: Record) -> list[Finding]:
    """The findings of a record, suppressed or not."""
    return [Finding(**each) for each in record.detail.get("findings", ())]


def case_of(record: Record) -> Key:
    """The case of a record."""
    return Key(record.function, record.variant, record.workload, record.dtype, record.device)


def by_case(records: tuple[Record, ...]) -> Iterator[tuple[tuple[str, str], list[Record]]]:
    """The records of each (Function, variant), in the order in which they come."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.function, record.variant), []).append(record)
    yield from groups.items()


def _plain(finding: Finding) -> dict[str, Any]:
    told = {**asdict(finding), "error": _finite(finding.error)}
    return {name: value for name, value in told.items() if value not in ("", None)}


def _finite(error: float | None) -> float | None:
    """None for a NaN or an infinity, which JSON has no numbers for; the message says what was observed."""
    return error if error is not None and math.isfinite(error) else None
