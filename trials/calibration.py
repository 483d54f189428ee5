"""How much work makes a planted slow-down: turns of a loop, from the loop's and the operation's times in the harness.

Once a run, and kept beside its blocks. Both are measured under the very conditions of the trial, in processes of the
same build: the operation's time in any other process is not the one that is slowed down (5 ms with pages that are kept
are 38 ms with fresh ones).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autofn.measure.lockstep import ArmSpec, Effort, Lockstep
from autofn.measure.processes import Build, Processes
from autofn.measure.statistics import over_processes
from autofn.records import Key, write_atomically

from .registry import LOOPS, PLANTED, SIZES, SPEC

BUDGET_S = 8.0


def calibrated(path: Path, of: Build) -> dict[str, Any]:
    """What `calibrate` found, read from `path` where it is there already."""
    if not path.exists():
        write_atomically(path, json.dumps(calibrate(of), indent=1) + "\n")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def calibrate(of: Build, budget_s: float = BUDGET_S) -> dict[str, Any]:
    """turns: {variant: {workload: turns}}. turn_s: of the loop. call_s, half_width: of each operation, as a fraction.

    The error of a planted slow-down is the relative one of these times: 2 % of call_s make 5 % 0.1 points wrong.
    """
    loop = _times(of, list(LOOPS), "us3", budget_s)
    few, many = LOOPS
    turn_s = (loop[many][0] - loop[few][0]) / (LOOPS[many] - LOOPS[few])
    calls = {workload: _times(of, ["eager"], workload, budget_s)["eager"] for workload in SIZES}
    return {
        "turn_s": turn_s,
        "call_s": {workload: call_s for workload, (call_s, _) in calls.items()},
        "half_width": {workload: width for workload, (_, width) in calls.items()},
        "turns": {
            variant: {workload: round(fraction * call_s / turn_s) for workload, (call_s, _) in calls.items()}
            for variant, fraction in PLANTED.items()
        },
    }


def _times(of: Build, variants: list[str], workload: str, budget_s: float) -> dict[str, tuple[float, float]]:
    """variant -> seconds a call, and half of their interval as a fraction."""
    arms = [ArmSpec(name, Key(SPEC.name, name, workload, "float32", "cpu"), of) for name in variants]
    with Processes() as processes:
        times = Lockstep(processes, arms, ("forward",), Effort(budget_s)).run().times
    found = {arm: over_processes(servers) for (arm, _, _), servers in times.items()}
    return {
        arm: (one.value, (one.high - one.low) / 2 / one.value if one.low and one.high else float("nan"))
        for arm, one in found.items()
    }
