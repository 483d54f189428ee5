"""What an asv `setup_cache` does: measures a Function of the installed commit by arms in lockstep. Imports no torch.

Every group is journalled as it ends, so an interrupted `asv run` goes on where it was.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .asv_axes import DEVICES, DTYPES, MEMORY, PHASES, WORKLOADS, written
from .measure import isolated, run
from .measure.lockstep import Effort
from .measure.processes import START_S, Build, Processes, describing, has_cuda
from .measure.rows import Arm, Group
from .records import ASV_JOURNAL, ASV_RESULTS, Journal, Record
from .sources import ROOT
from .terms import COMPILED

# workloads, dtypes: what is measured; budget_s: seconds a variant and phase, at most; the rest is of an `Effort`. One
# server gives no interval: quick and glance, which is for the commits before, show the way and decide nothing. Without
# standard's phase_s four Functions of long calls would sample for 110 s more, a fifteenth of the whole.
PROFILES: dict[str, dict[str, Any]] = {
    "glance": {"workloads": ["small"], "dtypes": ["float32"], "budget_s": 0.05, "rounds": 4, "servers": 1},
    "quick": {"workloads": WORKLOADS, "dtypes": ["float32"], "budget_s": 0.05, "rounds": 4, "servers": 1},
    "standard": {
        "workloads": WORKLOADS, "dtypes": ["float32", "bfloat16"], "budget_s": 0.1, "rounds": 4, "servers": 4,
        "phase_s": 1.0,
    },
    "full": {"workloads": WORKLOADS, "dtypes": DTYPES, "budget_s": 2.0, "rounds": 10, "servers": 8},
}  # fmt: skip


BUILD = "AUTOFN_BUILD"
"""The variable that names a folder with the packages of the commit under test, which asv then does not build."""


def profile() -> str:
    """The profile that AUTOFN_PROFILE names, by default "standard". Raises ValueError for one that there is not."""
    name = os.environ.get("AUTOFN_PROFILE", "standard")
    if name not in PROFILES:
        raise ValueError(f"AUTOFN_PROFILE: must be one of {', '.join(PROFILES)}, got {name!r}")
    return name


def devices() -> tuple[str, ...]:
    """The device that AUTOFN_DEVICE names, by default all. Raises ValueError for one that there is not."""
    name = os.environ.get("AUTOFN_DEVICE")
    if name and name not in DEVICES:
        raise ValueError(f"AUTOFN_DEVICE: must be one of {', '.join(DEVICES)}, got {name!r}")
    return (name,) if name else DEVICES


def measurable() -> dict[str, Sequence[str]]:
    """The values of each axis that the profile measures here; of variants all. Raises ValueError as `profile` does."""
    here = [device for device in devices() if device == "cpu" or has_cuda()]
    return {"workload": PROFILES[profile()]["workloads"], "dtype": PROFILES[profile()]["dtypes"], "device": here}


# Seconds on a quiet machine: to ask what a Function has; to start a server with the compiler, as two start at once; to
# compile in each what the cache holds; by workload for an arm in each server its template and a generation, and a round
# of all phases. `python -m trials.whole_run` shows where they go.
DESCRIBE_S, SERVER_S, COMPILE_S = 1.2, 1.7, 0.15
ARM_S = {"tiny": 0.04, "small": 0.05, "large": 0.29}
ROUND_S = {"tiny": 0.014, "small": 0.017, "large": 0.097}
# What is left of the rounds of large where a phase's may end early.
LEFT = 0.8
# To see whether others are busy; until a benchmark's process has handed its case over to asv.
BUSY_S, HAND_OVER_S = 0.2, 0.012


def estimate_s(name: str, functions: Iterable[str], device_count: int = 1, root: Path | None = None) -> float:
    """Seconds that a commit takes at a profile, about, where the kernels have been compiled before.

    root: of somebody's own repository, whose Functions these are.
    """
    return sum(_estimate_s(PROFILES[name], written(function, root), device_count) for function in functions)


def _estimate_s(effort: Mapping[str, Any], variants: Sequence[str], device_count: int) -> float:
    compiled = sum(variant.startswith(COMPILED) for variant in variants)
    # The baseline is two arms.
    arms = (len(variants) + 1) * effort["servers"]
    budget = len(variants) * len(PHASES) * effort["budget_s"]
    left = dict.fromkeys(WORKLOADS, 1.0) | ({"large": LEFT} if "phase_s" in effort else {})
    groups = sum(
        arms * ARM_S[workload]
        + max(budget, arms * effort["rounds"] * ROUND_S[workload] * left[workload])
        + compiled * effort["servers"] * COMPILE_S
        + BUSY_S
        for workload in effort["workloads"]
    )
    cases = len(variants) * len(effort["workloads"]) * (len(PHASES) + len(MEMORY))
    return (
        DESCRIBE_S
        + effort["servers"] * SERVER_S
        + len(effort["dtypes"]) * device_count * (groups + cases * HAND_OVER_S)
    )


def sample(function: str, version: str, *, own: bool = False) -> dict[str, Any]:
    """All cases of a Function of the commit under test: {(*case, phase, metric): result}, and why others are missing.

    own: whether it is one of somebody's repository, which lies checked out beside the environment, else of the package
    that is installed there.
    """
    root = Path(os.environ.get("ASV_CONF_DIR", "."))
    commit = os.environ.get("ASV_COMMIT", "")
    chosen = profile()
    folder = root / ASV_JOURNAL / os.environ.get("ASV_ENV_NAME", "environment") / (commit or "unknown")
    path = folder / f"{function}.{chosen}.jsonl"
    journal = OfRun(path, _unfinished_run(Journal(path), root, commit) or run.run_id())
    conditions = {"source": "asv", "run": journal.run, "commit": commit}
    otherwise = _measure(function, version, PROFILES[chosen], journal, conditions, _build(root, own))
    return {"found": {_key(record): _result(record) for record in journal.records()}, "otherwise": otherwise}


class OfRun(Journal):
    """The journal of one run: earlier runs stay in the file and out of sight."""

    def __init__(self, path: Path, run: str) -> None:
        super().__init__(path)
        self.run = run

    def records(self) -> Iterator[Record]:
        return (record for record in super().records() if record.run == self.run)


def _build(root: Path, own: bool) -> Build:
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(root.resolve() / "build" / "inductor"))
    checkout = ((ROOT, str(Path(os.environ["ASV_ENV_DIR"]) / "project")),) if own else ()
    return Build(environment=(("TORCHINDUCTOR_CACHE_DIR", cache), *checkout))


def _measure(
    function: str,
    version: str,
    effort: Mapping[str, Any],
    journal: Journal,
    conditions: Mapping[str, Any],
    build: Build,
) -> str:
    """Measures what the journal lacks. Returns why cases that are not in it are not there."""
    with Processes() as processes:
        known = processes.server(describing(build)).ask({"do": "describe", "function": function}, START_S)
        if not known:
            return f"this commit has no Function {function}"
        if known["version"] != version:
            return f"this commit has inputs of version {known['version']}, the suite is for version {version}"
        arms = tuple(Arm(name, kind in COMPILED) for name, kind in known["variants"])
        tasks = [run.Task(group, arms, version) for group in _groups(function, known, effort)]
        run.execute(
            tasks,
            PHASES,
            _lockstep(processes, build, effort),
            journal,
            conditions=lambda group: {**known["conditions"][group.device], "date": _now(), **conditions},
        )
    return "not among the cases of this profile, device or Function"


def _lockstep(
    processes: Processes, build: Build, effort: Mapping[str, Any]
) -> Callable[[run.Task, Any], Iterable[Record]]:
    def measure(task: run.Task, rows: Any) -> Iterable[Record]:
        whole = effort["budget_s"] * len(task.arms) * len(PHASES)
        chosen = Effort(
            whole, rounds=effort["rounds"], servers=effort["servers"], phase_s=effort.get("phase_s", math.inf)
        )
        # asv keeps neither errors nor first calls.
        return isolated.measure(processes, build, rows, task.arms, chosen, errors_and_first_calls=False)

    return measure


def _groups(function: str, known: Mapping[str, Any], effort: Mapping[str, Any]) -> list[Group]:
    return [
        Group(function, workload, dtype, device)
        for device in known["conditions"]
        if device in devices()
        for dtype in known["dtypes"]
        if dtype in effort["dtypes"]
        for workload in effort["workloads"]
        if workload in known["workloads"]
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
    saved = [path.stat().st_mtime for path in (root / ASV_RESULTS).glob(f"*/{commit[:8]}-*.json")] if commit else []
    delivered = any(when > journal.path.stat().st_mtime for when in saved)
    return None if delivered else last.run
