"""What `asv continuous` itself reports of the commits on which `autofn compare` is tried, and how long it takes.

    python -m trials.continuous --out FOLDER [--runs 1] [--profile glance]

FOLDER is that of `trials.commits`, whose scratch clone is used or made. asv measures one commit after the other, all
variants of each Function, for its samples come from there; what is compared is the same twenty cases in both phases, at
asv's factor of 1.1. Runs that are there already are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autofn.asv_run import PROFILES
from autofn.comparing import PHASES
from autofn.comparing.changes import FASTER, SLOWER
from autofn.measure import machine
from autofn.records import write_atomically

from .commits import BASE_TAG, KINDS, ROOT, VARIANT, WORKLOAD, cases, counts, planted, scratch, sides

MARKS = {"+": SLOWER, "-": FASTER}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--profile", choices=PROFILES, default="glance")
    chosen = parser.parse_args()
    repository = scratch(chosen.out / "repository")
    functions = [pair.group.function for pair in cases(next(sides(repository)))]
    path = chosen.out / f"continuous-{chosen.profile}.json"
    runs = json.loads(path.read_text())["runs"] if path.exists() else {kind: [] for kind in KINDS}
    about = {"commit": machine.commit(), "machine": machine.conditions("cpu", 1), "profile": chosen.profile}
    for kind in KINDS:
        for _ in range(len(runs[kind]), chosen.runs):
            runs[kind].append(_run(repository, kind, functions, chosen.profile))
            found = {kind: figures(kind, runs[kind]) for kind in KINDS}
            write_atomically(path, json.dumps({**about, "figures": found, "runs": runs}, indent=1) + "\n")
            print(kind, runs[kind][-1], flush=True)


def _run(repository: Path, kind: str, functions: Sequence[str], profile: str) -> dict[str, Any]:
    """Seconds of the command that a user gives, and what it reports. Raises RuntimeError where it fails."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))}
    asv = [sys.executable, "-m", "asv"]
    subprocess.run([*asv, "machine", "--yes"], cwd=repository, check=True, stdout=subprocess.DEVNULL)
    phases = "|".join(PHASES)
    bench = rf"timing\.({'|'.join(functions)})\.({phases})_time\('{VARIANT}', '{WORKLOAD}', 'float32', 'cpu'\)"
    begin = time.monotonic()
    done = subprocess.run(
        [*asv, "continuous", BASE_TAG, kind, "--bench", bench], cwd=repository, text=True, capture_output=True,
        env={**os.environ, **caches, "AUTOFN_PROFILE": profile},
    )  # fmt: skip
    seconds = time.monotonic() - begin
    # Status 1 is a regression, or a mistake.
    if "SIGNIFICANTLY" not in done.stdout:
        raise RuntimeError(f"asv continuous ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return {"seconds": round(seconds), "reported": list(reported(done.stdout))}


def reported(text: str) -> Iterator[str]:
    """What asv's table says has changed, such as "rms_norm forward slower"."""
    row = re.compile(r"^\|\s*([+-])\s*\|.*\btiming\.(\w+)\.(\w+)_time\(", re.MULTILINE)
    for mark, function, phase in row.findall(text):
        yield f"{function} {phase} {MARKS[mark]}"


def figures(kind: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of the runs what is counted of those of `autofn compare`, and their seconds."""
    counted = counts([run["reported"] for run in runs], planted(kind))
    return {**counted, "seconds_a_run": [run["seconds"] for run in runs]}


if __name__ == "__main__":
    main()
