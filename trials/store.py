"""How large the results of a fleet are, and what it costs to merge and to read them.

    python -m trials.store --out FOLDER [--cells 64] [--profile standard] [--machines 100] [--commits 10000]

Makes what jobs bring back, cells of a commit on a machine: asv's file and the journals of all Functions, with made-up
times in the shapes that `asv run` writes. Merges them one after the other as `autofn fleet` does, reads stores of
growing size as the report does, and says what the whole matrix would come to if all went on in proportion. Seconds are
of the processor, so that a busy machine changes little. store.json and store.md are written to FOLDER.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from autofn import asv_axes
from autofn.asv_run import PROFILES
from autofn.fleets.merging import merge
from autofn.measure import machine
from autofn.measure.protocols import WALL
from autofn.measure.rows import Group, Rows
from autofn.records import ASV_JOURNAL, ASV_RESULTS, Journal, Record, write_atomically

ENVIRONMENT = "shared-py3.11-torch2.13.0"
# Generations a server, as real runs come to; rounds and servers are the profile's.
GENERATIONS = 1
MACHINES = 2
# The shares of the cells at which reading is measured.
STEPS = (0.25, 1.0)
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
BYTES = (
    "saved_bytes", "saved_new_bytes", "held_bytes", "hidden_bytes", "peak_bytes", "leaked_bytes", "cyclic_bytes",
)  # fmt: skip
LEDGER = [{"bytes": 4096, "shape": [32, 32], "dtype": "float32", "label": "input x"}] * 2
DATE = "2026-11-30T10:00:00+00:00"
READ = "import sys; from trials.store import read; read(sys.argv[1])"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", type=int, default=64)
    parser.add_argument("--profile", choices=PROFILES, default="standard")
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--commits", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.out) as folder:
        found = measured(Path(folder), asked.cells, asked.profile)
    found |= {"profile": asked.profile, "machines": asked.machines, "commits": asked.commits}
    found["about"] = {**machine.conditions("cpu", 1), "functions": len(asv_axes.names())}
    write_atomically(asked.out / "store.json", json.dumps(found, indent=1) + "\n")
    write_atomically(asked.out / "store.md", page(found))


def measured(folder: Path, cells: int, profile: str) -> dict[str, Any]:
    """The figures of a store that grows to so many cells, on two machines."""
    root, job = folder / "root", folder / "job"
    merging: list[float] = []
    reading: list[dict[str, float]] = []
    steps = [max(1, round(cells * share)) for share in STEPS]
    for number in range(cells):
        write_cell(job, f"{number // MACHINES:040x}", f"machine{number % MACHINES}", profile, random.Random(number))
        if number == 0:
            sizes = {"asv_bytes": size(job / ASV_RESULTS), "journal_bytes": size(job / ASV_JOURNAL)}
        begin = time.process_time()
        merge(job, root, f"machine{number % MACHINES}")
        merging.append(time.process_time() - begin)
        shutil.rmtree(job)
        if number + 1 in steps:
            reading.append({"cells": number + 1, **apart(root)})
    begin = time.process_time()
    write_cell(job, f"{0:040x}", "machine0", profile, random.Random(-1))
    merge(job, root, "machine0")
    return {**sizes, "merge_s": merging, "merge_again_s": time.process_time() - begin, "reading": reading}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def write_cell(job: Path, commit: str, name: str, profile: str, draw: random.Random) -> None:
    """What a job leaves in its folder."""
    benchmarks: dict[str, Any] = {}
    for function in asv_axes.names():
        rows = list(records(function, commit, name, profile, draw))
        Journal(job / ASV_JOURNAL / ENVIRONMENT / commit / f"{function}.{profile}.jsonl").append(rows)
        benchmarks |= packed(function, rows)
    content = {
        "version": 2, "commit_hash": commit, "env_name": ENVIRONMENT, "date": 1796000119000, "python": "3.11",
        "params": {"machine": name, "cpu": "EPYC"}, "requirements": {"torch": "2.13.0"}, "env_vars": {},
        "result_columns": COLUMNS, "results": benchmarks, "durations": {},
    }  # fmt: skip
    write_atomically(job / ASV_RESULTS / name / f"{commit[-8:]}-{ENVIRONMENT}.json", json.dumps(content))


def records(function: str, commit: str, name: str, profile: str, draw: random.Random) -> Iterator[Record]:
    """The journal of a Function: every case of the profile on the CPU."""
    effort = PROFILES[profile]
    common = {
        "source": "asv", "run": commit[-12:], "commit": commit, "machine": name, "date": DATE, "version": "1",
        "threads": 1, "device_model": "EPYC", "torch": "2.13.0+cpu", "allocator": "settled",
    }  # fmt: skip
    shape = {"generations": [effort["rounds"]] * GENERATIONS * effort["servers"]}
    shape["servers"] = [GENERATIONS] * effort["servers"]
    for workload, dtype, variant in product(effort["workloads"], effort["dtypes"], asv_axes.written(function)):
        rows = Rows(Group(function, workload, dtype, "cpu"), asv_axes.PHASES, common)
        yield from rows.memory(variant, dict.fromkeys(BYTES, 4096.0) | {"ledger": LEDGER})
        yield from rows.error(variant, dict.fromkeys(("forward", "backward"), 1e-7))
        yield from rows.first_calls(variant, dict.fromkeys(asv_axes.PHASES, 0.01))
        for phase in asv_axes.PHASES:
            taken = times(draw, sum(shape["generations"]))
            detail = {**shape, "again": times(draw, len(taken))} if variant == "eager" else {**shape}
            yield rows.time(
                variant, phase, WALL, value=median(taken), low=min(taken), high=max(taken), samples=tuple(taken),
                number=100, processes=effort["servers"], detail=detail,
            )  # fmt: skip


def times(draw: random.Random, count: int) -> list[float]:
    """Made-up seconds with all their digits, as a clock gives them."""
    return [1e-5 * draw.lognormvariate(0, 0.02) for _ in range(count)]


def packed(function: str, rows: Sequence[Record]) -> dict[str, Any]:
    """The benchmarks of a Function in asv's file: a value a case, NaN where the profile has none."""
    axes = [asv_axes.variants(function), asv_axes.WORKLOADS, asv_axes.DTYPES, asv_axes.DEVICES]
    params = [[repr(value) for value in axis] for axis in axes]
    found = {(r.variant, r.workload, r.dtype, r.device, r.phase, r.metric): r for r in rows}
    benchmarks = {}
    for kind, name, phase, metric in [
        *(("timing", f"{phase}_time", phase, "time_s") for phase in asv_axes.PHASES),
        *(("memory", metric, "forward", metric) for metric in asv_axes.MEMORY),
    ]:
        cases = [found.get((*case, phase, metric)) for case in product(*axes)]
        values = [float("nan") if case is None else case.value for case in cases]
        columns: list[Any] = [values, params, "1", 1796000119000, 1.5]
        if kind == "timing":
            columns += [[case and getattr(case, name) for case in cases] for name in ("low", "high", "low", "high")]
            columns += [[case and case.number for case in cases], [case and len(case.samples) for case in cases]]
        benchmarks[f"{kind}.{function}.{name}"] = columns
    return benchmarks


def apart(root: Path) -> dict[str, float]:
    """What `read` says, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", READ, str(root)], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def read(root: str) -> None:
    """Prints what it takes to load all results, and to look for regressions in them."""
    from autofn import results
    from autofn.regressions import steps

    before, begin = peak(), time.process_time()
    frame = results.load(root)
    loaded = time.process_time()
    steps(frame, sorted(set(frame["commit"])))
    told = {
        "rows": len(frame), "load_s": loaded - begin, "load_bytes": peak() - before,
        "regressions_s": time.process_time() - loaded,
    }  # fmt: skip
    print(json.dumps(told))


def peak() -> int:
    """The most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def page(found: Mapping[str, Any]) -> str:
    """The figures as Markdown: of a cell, and of the whole matrix in proportion."""
    machines, cells = found["machines"], found["machines"] * found["commits"]
    first, last = found["reading"]
    each = [
        ("asv's file", "bytes", found["asv_bytes"], 0.0),
        ("journals", "bytes", found["journal_bytes"], 0.0),
        ("merging", "s", median(found["merge_s"]), 0.0),
        ("rows of the frame", "rows", *per_cell(first, last, "rows")),
        ("loading them", "s", *per_cell(first, last, "load_s")),
        ("memory to load them", "bytes", *per_cell(first, last, "load_bytes")),
        ("looking for regressions", "s", *per_cell(first, last, "regressions_s")),
    ]
    about = found["about"]
    lines = [
        f"{about['device_model']}, {about['functions']} Functions, profile {found['profile']}, {last['cells']} cells "
        f"of {MACHINES} machines; merging a cell that is there already: {found['merge_again_s']:.2g} s.",
        "",
        "| | a further commit of a machine | a machine, beside its commits | "
        f"{machines} machines x {found['commits']:,} commits |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | {told(slope, unit)} | {told(start, unit)} | {told(slope * cells + start * machines, unit)} |"
            for name, unit, slope, start in each
        ),
        "",
        "| cells | rows | load, s | load, bytes | regressions, s |",
        "|--:|--:|--:|--:|--:|",
        *(
            f"| {row['cells']} | {row['rows']:,} | {row['load_s']:.3g} | {told(row['load_bytes'], 'bytes')} | "
            f"{row['regressions_s']:.3g} |"
            for row in found["reading"]
        ),
    ]
    return "\n".join(lines) + "\n"


def per_cell(first: Mapping[str, float], last: Mapping[str, float], what: str) -> tuple[float, float]:
    """What a further cell adds, and what a machine costs beside its cells: a line through the two measurements."""
    slope = (last[what] - first[what]) / (last["cells"] - first["cells"])
    return slope, max(0.0, first[what] - slope * first["cells"]) / MACHINES


UNITS = {
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
    "s": ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")),
    "rows": ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")),
}


def told(value: float, unit: str) -> str:
    """Such as "2.4 TB" or "3 days"."""
    step, name = next((step for step in UNITS[unit] if value >= step[0]), (1.0, unit))
    return f"{value / step:.3g} {name}" if value else "0"


if __name__ == "__main__":
    main()
