"""What one group's measurement consists of, as records: the same whether measured in one process or in many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..records import FAILED, UNAVAILABLE, Key, Record
from .protocols import CACHE, LOCKSTEP, WALL, protocol

NEEDS_A_PROCESS = "the allocator is watched in a process of its own; this run was in one process"
NOT_FINITE = "the truth is finite, or zero, and this is not"

# (phase, metric); peaks are above the start of their phase, and what leaks is known when a whole step is over.
MEMORY_METRICS = (
    ("forward", "saved_bytes"),
    ("forward", "saved_new_bytes"),
    ("forward", "held_bytes"),
    ("forward", "hidden_bytes"),
    ("forward", "peak_bytes"),
    ("backward", "peak_bytes"),
    ("forward_backward", "leaked_bytes"),
)

ERROR_PHASES = ("forward", "backward")


@dataclass(frozen=True)
class Group:
    """What the arms of one comparison share."""

    function: str
    workload: str
    dtype: str
    device: str

    def __str__(self) -> str:
        return f"{self.function} {self.workload} {self.dtype} {self.device}"

    def key(self, variant: str) -> Key:
        return Key(self.function, variant, self.workload, self.dtype, self.device)


@dataclass(frozen=True)
class Arm:
    """One variant of a group, and whether it must have been compiled for its time to be its own."""

    variant: str
    compiled: bool = False


@dataclass(frozen=True)
class Rows:
    """Makes the records of a group.

    common: the fields that all of them share. ways: those in which times are taken. protocols: of a time, by phase.
    """

    group: Group
    phases: Sequence[str]
    common: Mapping[str, Any] = field(default_factory=dict)
    ways: Sequence[str] = (WALL,)
    protocols: Mapping[str, str] = field(default_factory=lambda: LOCKSTEP)

    @property
    def per_arm(self) -> int:
        """How many records an arm has, whatever became of it."""
        return len(MEMORY_METRICS) + len(ERROR_PHASES) + (1 + len(self.ways)) * len(self.phases)

    def record(self, variant: str, phase: str, metric: str, unit: str, **values: Any) -> Record:
        """One record; a value that is given overrides what all share."""
        said = {**self.common, **vars(self.group.key(variant)), "phase": phase, "metric": metric, "unit": unit}
        return Record(**{**said, **values})

    def time(self, variant: str, phase: str, way: str, **values: Any) -> Record:
        """A time, or why there is none: the way is in its protocol and its cache, whatever became of it."""
        how = {"protocol": protocol(way, self.protocols[phase]), "cache": CACHE[way]}
        return self.record(variant, phase, "time_s", "s", **{**how, **values})

    def memory(self, variant: str, found: Mapping[str, Any]) -> Iterator[Record]:
        """The bytes of an arm. found: the fields of `memory.Memory`, or of them those that were measured."""
        for phase, metric in MEMORY_METRICS:
            value = found.get(metric)
            if isinstance(value, Mapping):
                value = value[phase]
            detail = {"ledger": list(found["ledger"])} if metric == "saved_bytes" else {}
            if metric == "leaked_bytes" and value:
                detail = {"cyclic_bytes": found["cyclic_bytes"]}
            if "counted_by" in found and not metric.startswith("saved"):
                detail = {**detail, "counted_by": found["counted_by"]}
            if value is None:
                yield self.record(variant, phase, metric, "bytes", status=UNAVAILABLE, reason=NEEDS_A_PROCESS)
            else:
                yield self.record(variant, phase, metric, "bytes", value=value, detail=detail)

    def no_memory(self, variant: str, status: str, reason: str) -> Iterator[Record]:
        """The rows of an arm whose bytes could not be counted."""
        for phase, metric in MEMORY_METRICS:
            yield self.record(variant, phase, metric, "bytes", status=status, reason=reason)

    def error(self, variant: str, found: Mapping[str, float]) -> Iterator[Record]:
        """How far outputs and gradients lie from the truth, as a fraction of it. found: what `accuracy.error` says."""
        for phase in ERROR_PHASES:
            value = found[phase]
            if math.isfinite(value):
                yield self.record(variant, phase, "error", "1", value=value)
            else:
                yield self.record(variant, phase, "error", "1", status=FAILED, reason=NOT_FINITE)

    def no_error(self, variant: str, status: str, reason: str) -> Iterator[Record]:
        """The rows of an arm whose values could not be looked at."""
        for phase in ERROR_PHASES:
            yield self.record(variant, phase, "error", "1", status=status, reason=reason)

    def first_calls(self, variant: str, first_call_s: Mapping[str, float]) -> Iterator[Record]:
        """Seconds of the very first call of each phase: what is imported and compiled then is in no other time."""
        for phase in self.phases:
            yield self.record(variant, phase, "first_call_s", "s", value=first_call_s[phase], processes=1)

    def no_first_calls(self, variant: str, status: str, reason: str) -> Iterator[Record]:
        """The rows of an arm whose first calls tell nothing."""
        for phase in self.phases:
            yield self.record(variant, phase, "first_call_s", "s", status=status, reason=reason)

    def missing(self, variant: str, status: str, reason: str) -> Iterator[Record]:
        """The rows of an arm that has no values, each with the reason."""
        reason = reason.removeprefix(f"{self.group.function} ({variant}): ")
        yield from self.no_memory(variant, status, reason)
        yield from self.no_error(variant, status, reason)
        yield from self.no_first_calls(variant, status, reason)
        for phase in self.phases:
            for way in self.ways:
                yield self.time(variant, phase, way, status=status, reason=reason)
