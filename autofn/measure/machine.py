"""What a measurement was made under: the machine, its software and its state."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def cpu_model() -> str:
    """The processor's own name, such as "AMD EPYC"."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    for line in lines:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def load_average() -> float | None:
    """Processes that were running or waiting over the last minute, on average; None where the system keeps none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def others_busy(seconds: float = 0.2) -> float | None:
    """Processor cores that others keep busy while this process sleeps; None where the system does not say.

    Reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in clock ticks.
    """
    before = _ticks()
    if before is None:
        return None
    time.sleep(seconds)
    after = _ticks()
    if after is None:
        return None
    busy, total = after[0] - before[0], after[1] - before[1]
    return round(busy / total * (os.cpu_count() or 1), 2) if total else 0.0


def _ticks() -> tuple[int, int] | None:
    """Clock ticks that the processors were busy, and all of them."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    ticks = [int(word) for word in path.read_text().splitlines()[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def allocator() -> str:
    """ "settled" where glibc was told to keep freed pages (they decide the time of large cases), else "stock"."""
    return "settled" if "mmap_max=0" in os.environ.get("GLIBC_TUNABLES", "") else "stock"


# Freed pages are kept: a fresh 64 MB output costs 38 ms with stock malloc, 4.9 ms with these.
SETTLED_ALLOCATOR = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"


def conditions(device: str, threads: int) -> dict[str, Any]:
    """The fields of a Record that say what it was measured under."""
    import torch

    cuda = device == "cuda" and torch.cuda.is_available()
    return {
        "machine": platform.node(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "threads": threads,
        "device_model": torch.cuda.get_device_name() if cuda else cpu_model(),
        "driver": f"CUDA {torch.version.cuda}" if cuda else "",
        "torch": torch.__version__,
        "allocator": "caching" if cuda else allocator(),
        "cache": "warm",
    }


def conditions_apart(device: str, threads: int) -> dict[str, Any]:
    """As `conditions`, asked in a process of its own where the answer needs CUDA: a process that has asked cannot fork
    any that use it.
    """
    if device != "cuda":
        return conditions(device, threads)
    code = f"import json; from {__name__} import conditions; print(json.dumps(conditions({device!r}, {threads})))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def commit(folder: str | Path = ".") -> str:
    """The commit that is checked out in `folder`, with "+dirty" where the working tree differs; "" without git."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head + ("+dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(folder: str | Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
