"""Arms of the planted Functions, and the recording of many generations of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from statistics import median

from autofn.measure.lockstep import ArmSpec, Effort, Lockstep, Times
from autofn.measure.processes import Build, Processes
from autofn.records import Key

from .registry import SIZES, SPEC, clamp

ROOT = Path(__file__).parents[1]
PLANTED = {"slower_5": 0.05, "slower_2": 0.02}
# Two arms of the baseline, one more of the same code, and the planted ones.
ARMS = ("eager", "again", "same", *PLANTED)


def turns() -> dict[str, dict[str, int]]:
    """How many turns of an empty loop make each planted slowdown: from this machine's loop and operation."""
    import torch

    torch.set_num_threads(1)
    # Short loops, as the planted ones are: beyond 256 Python makes a new integer each turn.
    begin = time.perf_counter()
    for _ in repeat(None, 10_000):
        for _ in range(100):
            pass
    turn_s = (time.perf_counter() - begin) / 1_000_000
    found: dict[str, dict[str, int]] = {variant: {} for variant in PLANTED}
    for workload, size in SIZES.items():
        x = torch.randn(size, requires_grad=True)
        calls = max(3, int(0.02 / (size * 5e-10 + 3e-6)))
        seconds = []
        for _ in range(30):
            begin = time.perf_counter()
            for _ in range(calls):
                clamp(x)
            seconds.append((time.perf_counter() - begin) / calls)
        for variant, fraction in PLANTED.items():
            found[variant][workload] = max(1, round(fraction * median(seconds) / turn_s))
    return found


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
            chosen = Effort(
                effort.budget_s, effort.rounds, effort.fewest_generations, effort.most_generations, seed=block
            )
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
