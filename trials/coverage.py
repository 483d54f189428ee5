"""Do 95 % intervals hold beyond the processes that they were computed from?

    python -m trials.coverage --out FOLDER

36 cells: 12 pairs of eager and another variant, at three sizes, phase forward. A cell's interval comes from the six
interpreters that `autofn bench` would start; it covers where the median ratio of FURTHER interpreters lies within. All
of a cell's interpreters run in the same minute and in random order: how the machine drifts from one minute to the next
is in no interval. Besides, SPLITS further divisions of the same interpreters into six and FURTHER, for one division
says little. The interval that one interpreter's rounds alone would give is held against the same medians. Recorded
interpreters are written as they end and are used again by the same command.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from autofn import registry
from autofn.measure import machine
from autofn.measure.lockstep import ArmSpec, Effort, Lockstep
from autofn.measure.processes import Build, Processes
from autofn.measure.protocols import WALL
from autofn.measure.statistics import Estimate, Nested, paired_logs, ratio, ratio_over_processes
from autofn.records import Key, write_atomically
from autofn.terms import COMPILED

PAIRS = {
    "rms_norm": ("compile", "native", "python", "fused", "cpp"),
    "exp": ("compile", "python", "fused", "cpp"),
    "clipped_relu": ("native", "python", "cpp"),
}
WORKLOADS = ("tiny", "small", "large")
SERVERS = Effort(0).servers
FURTHER = 20
SPLITS = 200

Recorded = dict[str, Nested]
"""arm -> its seconds a call, by server and generation."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    cells = [
        _cell(f"{function} {variant} {workload}", recorded["eager"], recorded[variant])
        for function, variants in PAIRS.items()
        for workload in WORKLOADS
        for recorded in [_recorded(chosen.out / f"coverage-{function}-{workload}.json", function, workload)]
        for variant in variants
    ]
    found = {
        "commit": machine.commit(),
        "machine": machine.conditions("cpu", 1),
        "further": FURTHER,
        "cells": len(cells),
        "covered": sum(cell["covered"] for cell in cells),
        "covered_by_one_process": sum(cell["covered_by_one_process"] for cell in cells),
        "splits": SPLITS,
        "covered_share": round(fmean(cell["covered_share"] for cell in cells), 4),
        "details": cells,
    }
    write_atomically(chosen.out / "coverage.json", json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name not in ("machine", "details")}))


def _recorded(path: Path, function: str, workload: str) -> Recorded:
    """The times of SERVERS + FURTHER interpreters, from the file if it is there."""
    if not path.exists():
        effort = _effort(1 + len(PAIRS[function]))
        arms = [
            ArmSpec(name, Key(function, name, workload, "float32", "cpu"), Build(), _compiled(function, name))
            for name in ("eager", *PAIRS[function])
        ]
        with Processes() as processes:
            times = Lockstep(processes, arms, ("forward",), effort).run().times
        recorded = {arm.name: times[arm.name, "forward", WALL] for arm in arms}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(recorded) + "\n")
        print(path.stem, flush=True)
    found: Recorded = json.loads(path.read_text())
    return found


def _effort(arms: int) -> Effort:
    """As many generations an interpreter as a second an arm gives six of them."""
    return Effort(arms * (SERVERS + FURTHER) / SERVERS, servers=SERVERS + FURTHER)


def _compiled(function: str, variant: str) -> bool:
    return registry.variant(function, variant).kind in COMPILED


def _cell(name: str, base: Nested, other: Nested) -> dict[str, Any]:
    everyone = range(len(base))
    mine = everyone[:SERVERS]
    found, alone = _interval(base, other, mine), ratio(base[0][0], other[0][0])
    truth = _truth(base, other, everyone[SERVERS:])
    draw = random.Random(1)
    splits = [draw.sample(everyone, SERVERS) for _ in range(SPLITS)]
    held = [
        _within(_interval(base, other, split), _truth(base, other, [one for one in everyone if one not in split]))
        for split in splits
    ]
    return {
        "cell": name,
        "interval": [found.low, found.high],
        "one_process": [alone.low, alone.high],
        "median_of_further": truth,
        "covered": _within(found, truth),
        "covered_by_one_process": _within(alone, truth),
        "covered_share": fmean(held),
    }


def _interval(base: Nested, other: Nested, servers: Sequence[int]) -> Estimate:
    return ratio_over_processes([base[one] for one in servers], [other[one] for one in servers])


def _truth(base: Nested, other: Nested, servers: Sequence[int]) -> float:
    logs = paired_logs([base[one] for one in servers], [other[one] for one in servers])
    return math.exp(median(map(median, logs)))


def _within(interval: Estimate, truth: float) -> bool:
    return bool(interval.low and interval.high and interval.low <= truth <= interval.high)


if __name__ == "__main__":
    main()
