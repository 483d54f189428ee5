"""What a comparison found, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from ..records import FAILED, UNAVAILABLE

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"
LESS, MORE = "less", "more"
BROKEN = "broken"
"""It ran at the base and fails at the head."""

WORSE = (SLOWER, MORE, BROKEN)
BETTER = (FASTER, LESS)


@dataclass(frozen=True)
class Change:
    """One metric of one case in one phase, at the base and at the head.

    verdict: of a time faster, slower, same or cannot tell; of bytes and instructions less, more or same; broken; failed
    and n/a where it has no value at the base either, with the reason. base, head: in the metric's unit. ratio: base /
    head, of times with the bounds of its interval; above 1 the head takes less. floor: half of what two arms of the
    base differ by, as a fraction. smallest_effect: the smallest difference, as a fraction, that would have been seen.
    """

    function: str
    variant: str
    workload: str
    dtype: str
    device: str
    phase: str
    metric: str
    verdict: str
    base: float | None = None
    head: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    smallest_effect: float | None = None
    reason: str = ""

    @property
    def case(self) -> str:
        """Such as "rms_norm cpp small float32"."""
        return f"{self.function} {self.variant} {self.workload} {self.dtype}" + (
            "" if self.device == "cpu" else f" {self.device}"
        )

    @property
    def measured(self) -> bool:
        return self.verdict not in (FAILED, UNAVAILABLE)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what is not there."""
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


COLUMNS = tuple(entry.name for entry in fields(Change))


def from_dict(found: dict[str, Any]) -> Change:
    """The change that `to_dict` wrote; fields of a later version are left out. Raises TypeError where some lack."""
    return Change(**{name: value for name, value in found.items() if name in COLUMNS})


def worse(changes: list[Change], kinds: tuple[str, ...] = WORSE) -> list[Change]:
    """The regressions of these kinds, worst first."""
    return sorted((c for c in changes if c.verdict in kinds), key=_loss, reverse=True)


def better(changes: list[Change]) -> list[Change]:
    """The improvements, best first."""
    return sorted((c for c in changes if c.verdict in BETTER), key=_loss)


def _loss(change: Change) -> float:
    """head / base; what broke comes first."""
    if change.verdict == BROKEN or not change.base or change.head is None:
        return float("inf")
    return 1 / change.ratio if change.ratio else change.head / change.base
