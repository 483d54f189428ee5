"""What an asv `setup_cache` does: one worker process measures a Function of the installed commit, watched from here.

Imports no torch. A worker that crashes or hangs costs the arm that it was at; a new one goes on with the others. What
was measured is in the journal at once, so an interrupted `asv run` goes on where it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .measure.machine import SETTLED_ALLOCATOR
from .records import Journal, Record

JOURNAL = Path(".asv/journal")
RESULTS = Path(".asv/results")
HANGS_AFTER_S = 300.0
POLL_S = 0.1

# dtypes: what is measured; budget_s: sampling time a case and phase.
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {"dtypes": ["float32"], "budget_s": 0.03},
    "standard": {"dtypes": ["float32", "bfloat16"], "budget_s": 0.1},
    "full": {"dtypes": ["float32", "bfloat16", "float64", "float16"], "budget_s": 0.5},
}


def profile() -> str:
    """The profile that AUTOFN_PROFILE names, by default "standard". Raises ValueError for one that there is not."""
    name = os.environ.get("AUTOFN_PROFILE", "standard")
    if name not in PROFILES:
        raise ValueError(f"AUTOFN_PROFILE: must be one of {', '.join(PROFILES)}, got {name!r}")
    return name


def sample(function: str, version: str) -> dict[str, Any]:
    """All cases of a Function of the installed commit: {(*case, phase, metric): result}, and why others are missing."""
    root = Path(os.environ.get("ASV_CONF_DIR", "."))
    commit = os.environ.get("ASV_COMMIT", "")
    chosen = profile()
    environment = os.environ.get("ASV_ENV_NAME", "environment")
    journal = Journal(root / JOURNAL / environment / (commit or "unknown") / f"{function}.{chosen}.jsonl")
    run = _unfinished_run(journal, root, commit) or f"{os.getpid():x}-{os.urandom(4).hex()}"
    task = {
        "function": function,
        "version": version,
        "journal": str(journal.path),
        "conditions": {"source": "asv", "run": run, "commit": commit},
        **PROFILES[chosen],
    }
    otherwise = _measure(task, root)
    found = [record for record in journal.records() if record.run == run]
    return {"found": {_key(record): _result(record) for record in found}, "otherwise": otherwise}


def _key(record: Record) -> tuple[str, ...]:
    case = (record.variant, record.workload, record.dtype, record.device)
    return (*case, record.phase, record.metric)


def _result(record: Record) -> dict[str, Any]:
    return {
        "status": record.status,
        "reason": record.reason,
        "value": record.value,
        "samples": list(record.samples),
        "number": record.number,
    }


def _unfinished_run(journal: Journal, root: Path, commit: str) -> str | None:
    """The run to go on with: the journal's last one, unless asv has saved results of this commit since."""
    last = None
    for record in journal.records():
        last = record
    if last is None:
        return None
    saved = [path.stat().st_mtime for path in (root / RESULTS).glob(f"*/{commit[:8]}-*.json")] if commit else []
    delivered = any(when > journal.path.stat().st_mtime for when in saved)
    return None if delivered else last.run


def _measure(task: dict[str, Any], root: Path) -> str:
    """Runs workers until one ends well. Returns why cases that are not in the journal are not there."""
    lost: dict[str, str] = {}
    while True:
        with tempfile.TemporaryDirectory() as folder:
            watched = Path(folder) / "arm"
            status, output = _watch({**task, "lost": lost, "arm": str(watched)}, watched, root)
            if status == 0:
                return output.strip().splitlines()[-1] if output.strip() else "not in the profile of this run"
            arm = watched.read_text() if watched.exists() else ""
        if not arm or arm in lost:
            raise RuntimeError(f"the worker ended with {_describe(status)} and no arm to blame:\n{output}")
        lost[arm] = f"the process was lost: {_describe(status)}"
        _note_lost(task, output)


def _watch(task: dict[str, Any], watched: Path, root: Path) -> tuple[int, str]:
    """One worker: its exit status (negative for a signal) and what it printed. It is killed where an arm hangs."""
    environment = {
        **os.environ,
        # Pages that malloc returns and fetches again decide the time of large cases; one thread, see DESIGN.
        "GLIBC_TUNABLES": SETTLED_ALLOCATOR,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(root / "build" / "inductor")),
    }
    script = Path(__file__).with_name("harness.py")
    with tempfile.TemporaryFile("w+") as output:
        # -P: the script's folder must not come before the installed packages.
        command = [sys.executable, "-P", str(script), "asv_worker", "work", json.dumps(task)]
        worker = subprocess.Popen(command, env=environment, stdout=output, stderr=sys.stderr)
        try:
            started = time.time()
            while worker.poll() is None:
                last = watched.stat().st_mtime if watched.exists() else started
                if time.time() - max(last, started) > HANGS_AFTER_S:
                    worker.kill()
                time.sleep(POLL_S)
        finally:
            worker.kill()
            worker.wait()
        output.seek(0)
        return worker.returncode, output.read()


def _describe(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    hang = f" (or no answer for {HANGS_AFTER_S:.0f} s)" if status == -9 else ""
    return f"signal {-status}{hang}"


def _note_lost(task: dict[str, Any], output: str) -> None:
    print(f"{task['function']}: a worker was lost, a new one goes on\n{output}", file=sys.stderr)
