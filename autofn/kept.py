"""Which promises the results of a run keep. Bytes are counted; of a time, the interval and the noise floor decide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from . import registry
from .measure.protocols import WALL
from .promises import Promise
from .records import OK, Key
from .results import CASE
from .spec import dtype_named
from .speedups import add_speedups

KEPT, BROKEN, CANNOT_TELL = "kept", "broken", "cannot tell"


@dataclass(frozen=True)
class Judged:
    """A promise in one case. verdict: KEPT, BROKEN or CANNOT_TELL, and then `reason` says why; "" where it is plain."""

    promise: Promise
    key: Key
    phase: str
    observed: str
    limit: float
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        who = f"{self.key.function} ({self.key.variant}) {self.key.workload} {self.key.dtype}"
        seen = f"{self.promise.quantity} is {self.observed}, promised {self.limit:g}" if self.observed else ""
        told = "; ".join(text for text in (seen, self.reason) if text)
        said = "cannot tell whether it is kept" if self.verdict == CANNOT_TELL else self.verdict
        return f"promise {self.promise.text!r} of {who} {self.phase}: {said}: {told}"


def judged(results: pd.DataFrame) -> list[Judged]:
    """Every promise of the Specs on every case of the results that it concerns and that was measured.

    What could not run or failed has no row here: that is told for itself.
    """
    times = add_speedups(results)
    times = times[times["way"] == WALL]
    found = []
    for function in [name for name in dict.fromkeys(results["function"]) if name in registry.every_name()]:
        for promise in registry.spec(function).promised:
            rows = times if promise.quantity == "speedup" else results[results["metric"] == promise.quantity]
            found += list(_of_function(promise, rows[rows["function"] == function]))
    return found


def _of_function(promise: Promise, rows: pd.DataFrame) -> Iterator[Judged]:
    row: Any
    for row in rows[rows["status"] == OK].itertuples():
        key = Key(*(getattr(row, column) for column in CASE))
        if not promise.concerns(key) or (promise.phases and row.phase not in promise.phases):
            continue
        sizes = registry.spec(key.function).workloads[key.workload]
        limit = promise.limit(sizes, dtype_named(key.dtype).itemsize)
        if promise.quantity == "speedup":
            yield Judged(promise, key, row.phase, *_speedup(row, limit))
        else:
            observed = f"{row.value:.3g}" if promise.quantity == "error" else f"{row.value:.0f} bytes"
            verdict = KEPT if promise.keeps(row.value, limit) else BROKEN
            yield Judged(promise, key, row.phase, observed, limit, verdict)


def _speedup(row: Any, limit: float) -> tuple[str, float, str, str]:
    """Broken and kept ask that the whole interval lies on one side of the limit, by more than the floor."""
    observed = f"{row.speedup:.3g}x"
    if math.isnan(row.speedup):
        return "", limit, CANNOT_TELL, "there is no baseline"
    if not row.verdict or math.isnan(row.floor):
        return observed, limit, CANNOT_TELL, "no verdict follows from this run; leave out --quick and --no-isolate"
    low, high = row.speedup_low * math.exp(-row.floor), row.speedup_high * math.exp(row.floor)
    if low >= limit:
        return observed, limit, KEPT, ""
    if high < limit:
        return observed, limit, BROKEN, ""
    return (
        observed,
        limit,
        CANNOT_TELL,
        f"it lies between {low:.3g}x and {high:.3g}x; a longer --budget narrows that",
    )
