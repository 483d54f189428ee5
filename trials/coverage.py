"""Do 95 % intervals hold beyond the processes that they were computed from?

    python -m trials.coverage --out FOLDER

36 cells: 12 pairs of eager and another variant, at three sizes, phase forward. A cell's interval comes from one run as
`autofn bench` makes it; it covers where the median ratio of a second run of FURTHER servers of its own lies within. The
interval that one process alone would give is held against the same medians.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from statistics import median
from typing import Any

from autofn import registry
from autofn.measure import machine
from autofn.measure.lockstep import ArmSpec, Effort, Lockstep, Times
from autofn.measure.processes import Build, Processes
from autofn.measure.protocols import WALL
from autofn.measure.statistics import paired_logs, ratio, ratio_over_processes
from autofn.records import Key, write_atomically

PAIRS = {
    "rms_norm": ("compile", "native", "python", "fused", "cpp"),
    "exp": ("compile", "python", "fused", "cpp"),
    "clipped_relu": ("native", "python", "cpp"),
}
WORKLOADS = ("tiny", "small", "large")
FURTHER = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    cells = [cell for function in PAIRS for workload in WORKLOADS for cell in _cells(function, workload)]
    found = {
        "commit": machine.commit(),
        "machine": machine.conditions("cpu", 1),
        "further": FURTHER,
        "cells": len(cells),
        "covered": sum(cell["covered"] for cell in cells),
        "covered_by_one_process": sum(cell["covered_by_one_process"] for cell in cells),
        "details": cells,
    }
    write_atomically(chosen.out / "coverage.json", json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: found[name] for name in ("cells", "covered", "covered_by_one_process")}))


def _cells(function: str, workload: str) -> list[dict[str, Any]]:
    first = _run(function, workload, Effort(float(1 + len(PAIRS[function]))))
    second = _run(function, workload, Effort(float(1 + len(PAIRS[function])), servers=FURTHER))
    base, later = first["eager", "forward", WALL], second["eager", "forward", WALL]
    cells = []
    for variant in PAIRS[function]:
        mine = first[variant, "forward", WALL]
        found, alone = ratio_over_processes(base, mine), ratio(base[0][0], mine[0][0])
        truth = math.exp(median(map(median, paired_logs(later, second[variant, "forward", WALL]))))
        cells.append(
            {
                "cell": f"{function} {variant} {workload}",
                "interval": [found.low, found.high],
                "one_process": [alone.low, alone.high],
                "median_of_further": truth,
                "covered": bool(found.low and found.high and found.low <= truth <= found.high),
                "covered_by_one_process": bool(alone.low and alone.high and alone.low <= truth <= alone.high),
            }
        )
        print(cells[-1], flush=True)
    return cells


def _run(function: str, workload: str, effort: Effort) -> Times:
    arms = [
        ArmSpec(name, Key(function, name, workload, "float32", "cpu"), Build(), _compiled(function, name))
        for name in ("eager", *PAIRS[function])
    ]
    with Processes() as processes:
        return Lockstep(processes, arms, ("forward",), effort).run().times


def _compiled(function: str, variant: str) -> bool:
    return registry.variant(function, variant).kind in registry.COMPILED


if __name__ == "__main__":
    main()
