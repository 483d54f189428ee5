"""A store of a million made-up results, to see how loading and reporting bear up: nothing in it was measured.

`python -m trials.synthetic FOLDER` writes, as asv would, 26 Functions in 7 variants on 2 devices over 200 commits: a
git repository with as many commits, and one result file a commit with all times, intervals and bytes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autofn import registry
from autofn.records import ASV_RESULTS, write_atomically
from autofn.terms import KINDS

COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"]
MACHINE = {"machine": "synthetic", "cpu": "none", "num_cpu": "1", "os": "Linux", "arch": "x86_64", "ram": "0"}
WORKLOADS = {"tiny": 6e-6, "small": 6e-5, "large": 1.4e-2}
PHASES = {"forward": 0.4, "backward": 0.6, "forward_backward": 1.0, "inference": 0.35}
START_MS, DAY_MS = 1767225600000, 86400000


@dataclass(frozen=True)
class Shape:
    """How much of everything."""

    functions: int = 26
    variants: tuple[str, ...] = KINDS
    devices: tuple[str, ...] = ("cpu", "cuda")
    commits: int = 200

    @property
    def cases(self) -> int:
        """Of one benchmark."""
        return len(self.variants) * len(WORKLOADS) * len(self.devices)

    @property
    def names(self) -> list[str]:
        """Functions that exist first: only of these can the report tell formula and size."""
        made = (f"synthetic_{number}" for number in itertools.count())
        return list(itertools.islice(itertools.chain(registry.names(), made), self.functions))


def write(root: Path, shape: Shape, seed: int = 0) -> int:
    """Writes the store and its repository below `root`; how many results it holds comes back."""
    rng = random.Random(seed)
    hashes = _repository(root, shape.commits)
    folder = root / ASV_RESULTS / MACHINE["machine"]
    write_atomically(folder / "machine.json", json.dumps({**MACHINE, "version": 1}))
    benchmarks = [name for function in shape.names for name in _benchmarks(function)]
    write_atomically(folder.parent / "benchmarks.json", json.dumps(_described(benchmarks, shape)))
    for number, commit in enumerate(hashes):
        results = {name: _packed(name, shape, number / len(hashes), rng) for name in benchmarks}
        write_atomically(folder / f"{commit[:8]}-synthetic.json", json.dumps(_content(commit, number, results)))
    return len(hashes) * len(benchmarks) * shape.cases


def _benchmarks(function: str) -> list[str]:
    timed = [f"timing.{function}.{phase}_time" for phase in PHASES]
    return [*timed, f"memory.{function}.saved_bytes"]


def _repository(root: Path, commits: int) -> list[str]:
    """An empty commit a day; the hashes, the oldest first."""
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(root)], check=True)
    stream = "".join(
        f"commit refs/heads/main\ncommitter A <a@b.c> {(START_MS + day * DAY_MS) // 1000} +0000\n"
        f"data <<END\nCommit {day}\nEND\n\n"
        for day in range(commits)
    )
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input=stream, text=True, check=True)
    log = ["git", "-C", str(root), "log", "--reverse", "--format=%H"]
    return subprocess.run(log, check=True, capture_output=True, text=True).stdout.split()


def _packed(name: str, shape: Shape, age: float, rng: random.Random) -> list[Any]:
    """Of one benchmark at one commit: every variant has a speed of its own, `cpp` gains a fifth half way."""
    _, function, metric = name.split(".")
    speeds = random.Random(function)
    speed = {variant: 0.3 + speeds.random() for variant in shape.variants}
    values = []
    for variant, workload, device in itertools.product(shape.variants, WORKLOADS, shape.devices):
        if metric == "saved_bytes":
            values.append(float(len(workload) * 4096))
            continue
        step = 0.8 if variant == "cpp" and age > 0.5 else 1.0
        base = WORKLOADS[workload] * PHASES[metric.removesuffix("_time")] * speed[variant] * step
        values.append(base * (0.1 if device == "cuda" else 1.0) * rng.lognormvariate(0, 0.01))
    timed = metric != "saved_bytes"
    low, high = ([value * bound for value in values] if timed else None for bound in (0.98, 1.03))
    return [values, _axes(shape), "1", START_MS, 1.0, low, high]


def _axes(shape: Shape) -> list[list[str]]:
    axes = [list(shape.variants), list(WORKLOADS), ["float32"], list(shape.devices)]
    return [[repr(value) for value in axis] for axis in axes]


def _content(commit: str, number: int, results: dict[str, Any]) -> dict[str, Any]:
    return {
        "commit_hash": commit, "env_name": "synthetic", "date": START_MS + number * DAY_MS, "params": MACHINE,
        "python": "3.11", "requirements": {"torch": "2.13.0"}, "env_vars": {}, "durations": {}, "version": 2,
        "result_columns": COLUMNS, "results": results,
    }  # fmt: skip


def _described(names: Any, shape: Shape) -> dict[str, Any]:
    """asv's own list of benchmarks, without which it publishes nothing."""
    common = {"code": "", "param_names": ["variant", "workload", "dtype", "device"], "params": _axes(shape)}
    common |= {"type": "track", "unit": "seconds", "version": "1"}
    return {"version": 2} | {name: {**common, "name": name} for name in names}


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--commits", type=int, default=Shape.commits)
    given = parser.parse_args()
    print(f"{write(given.folder, Shape(commits=given.commits)):,} results in {given.folder}")


if __name__ == "__main__":
    main()
