"""How long `asv run` of one commit takes, all Functions at a profile, and where that time goes.

    python -m trials.whole_run --out FOLDER [--profile standard]

A scratch clone of this repository measures its HEAD, with the compilers' caches of this one. A run that was interrupted
goes on by the same command; its time would be that of a part, so it is then n/a. The overhead of processes and imports
is servers, forks, the build and what asv itself does; what else is no sample, compiles, counts bytes and warms up.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from autofn import results
from autofn.asv_run import PROFILES, estimate_s
from autofn.measure import machine
from autofn.records import OK, write_atomically
from autofn.registry import names

ROOT = Path(__file__).parents[1]
# Of what a group spends; "rest" is the build and asv's own.
PROCESSES = ("servers", "forks", "rest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--profile", choices=PROFILES, default="standard")
    chosen = parser.parse_args()
    clone = chosen.out / "repository"
    fresh = not clone.exists()
    if fresh:
        clone.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
    seconds = _run(clone, chosen.profile)
    found = {
        "commit": machine.commit(),
        "machine": machine.conditions("cpu", 1),
        "profile": chosen.profile,
        "estimated_s": round(estimate_s(chosen.profile, names())),
        "seconds": round(seconds, 1) if fresh else None,
        **where_it_went(results.load(clone, sources=["asv"]), seconds if fresh else None),
    }
    write_atomically(chosen.out / f"whole-run-{chosen.profile}.json", json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def _run(clone: Path, profile: str) -> float:
    """Seconds of the command that a user gives. Raises CalledProcessError where it fails."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))}
    asv = [sys.executable, "-m", "asv"]
    subprocess.run([*asv, "machine", "--yes"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    begin = time.monotonic()
    subprocess.run(
        [*asv, "run", "HEAD^!"], cwd=clone, check=True, env={**os.environ, **caches, "AUTOFN_PROFILE": profile}
    )
    return time.monotonic() - begin


def where_it_went(found: pd.DataFrame, seconds: float | None) -> dict[str, Any]:
    """Cases, and seconds by what they were spent on.

    overhead: the part of the whole that is of processes and imports. samples: that of samples.
    """
    times = found[(found["metric"] == "time_s") & (found["status"] == OK)]
    groups = times.drop_duplicates(["commit", "function", "workload", "dtype", "device"])["detail"]
    spent: dict[str, float] = {}
    for detail in groups:
        for what, part in detail["spent_s"].items():
            spent[what] = round(spent.get(what, 0.0) + part, 1)
    told: dict[str, Any] = {"cases": len(times), "groups": len(groups), "spent_s": spent}
    if seconds is not None:
        spent["rest"] = round(seconds - sum(spent.values()), 1)
        told["overhead"] = round(sum(spent.get(what, 0.0) for what in PROCESSES) / seconds, 3)
        told["samples"] = round(spent.get("samples", 0.0) / seconds, 3)
    return told


if __name__ == "__main__":
    main()
