"""Arms of the planted Functions, and the recording of many generations of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from autofn.measure.lockstep import ArmSpec, Effort, Lockstep, Times
from autofn.measure.processes import Build, Processes
from autofn.records import Key

from .registry import PLANTED, SPEC

ROOT = Path(__file__).parents[1]
# Two arms of the baseline, one more of the same code, and the planted ones.
ARMS = ("eager", "again", "same", *PLANTED)


def build(planted: dict[str, dict[str, int]]) -> Build:
    variables = (("PYTHONPATH", str(ROOT)), ("TRIAL_TURNS", json.dumps(planted)))
    return Build(package="trials", environment=variables)


def arms(workload: str, of: Build, names: tuple[str, ...] = ARMS) -> list[ArmSpec]:
    return [
        ArmSpec(name, Key(SPEC.name, name if name in PLANTED else "eager", workload, "float32", "cpu"), of)
        for name in names
    ]


def record(
    workload: str, of: Build, names: tuple[str, ...], effort: Effort, blocks: int, deadline: float
) -> Iterator[tuple[float, Times]]:
    """Blocks of generations, each with servers and templates of its own: seconds that it took, and its times."""
    for block in range(blocks):
        if time.monotonic() > deadline:
            return
        begin = time.monotonic()
        with Processes() as processes:
            chosen = replace(effort, seed=block)
            times = Lockstep(processes, arms(workload, of, names), ("forward",), chosen).run().times
        yield time.monotonic() - begin, times


@contextmanager
def busy_neighbour() -> Iterator[None]:
    """A process that streams through memory on one core for as long as the block lasts."""
    code = "import torch; torch.set_num_threads(1); x = torch.randn(4_000_000)\nwhile True: x.clamp(-1, 1)"
    process = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ, OMP_NUM_THREADS="1"))
    try:
        time.sleep(3)
        yield
    finally:
        process.kill()
        process.wait()
