"""A recorded trace as files: the trace, its tables and its summary, moved into place whole, and read back."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..records import OK
from .events import PROFILED, of_last_steps, readable, trimmed
from .flame import flame_graph
from .operators import COLUMNS, kernels, operators

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
FLAME, MEMORY = "flame.speedscope.json", "memory.pickle"
# What the rows of an operators.csv are told apart by beside what stands in them.
OF_RUN = ("workload", "dtype", "device", "steps", "slowdown", "trace", "folder")


@dataclass(frozen=True)
class TraceSummary:
    """One run of the profiler, or the reason why there is none.

    variant: "all" for the run that holds every variant in each step. status: "ok", "failed" or "n/a", with its reason.
    commit: of the traced package, with "+dirty" where its files differed; code: a digest of them. slowdown: what a
    recorded step took over an unrecorded one. kernels: {phase: {name: launches in one call}}; in "all" a phase reads
    `<variant>/<phase>`. On the CPU only compiled kernels have names, so these are counted; on CUDA all are.
    clock: always "profiled": no time of a trace is a measurement.
    """

    function: str
    variant: str
    workload: str
    dtype: str
    device: str
    status: str = OK
    reason: str = ""
    commit: str = ""
    code: str = ""
    torch: str = ""
    date: str = ""
    steps: int = 0
    stacks: bool = True
    slowdown: float = 0.0
    kernels: dict[str, dict[str, float]] = field(default_factory=dict)
    trace: str = ""
    folder: str = ""
    clock: str = PROFILED


def without_machine_paths(text: str) -> str:
    """The JSON text of a trace, for publication: without the package's and Inductor's folders in file names."""
    text = text.replace(f"{Path(__file__).parents[2]}/", "")
    return re.sub(r'/[^";]*/torchinductor_[^/";]+/', "torchinductor/", text)


def write(
    summary: TraceSummary, exported: Path, out: Path, *, flame: bool = False, memory: bytes = b""
) -> TraceSummary:
    """Writes the run folder `<out>/<function>/<variant>` from the exported JSON; returns the summary filled in.

    flame: also a flame graph. memory: a snapshot of CUDA's allocator, if there is one. Every file is complete before
    the first is moved into place, and what the folder held before goes last: a viewer never sees half a trace, and an
    interrupted recording leaves the old one.
    """
    content = json.loads(without_machine_paths(exported.read_text()))
    events = of_last_steps(content["traceEvents"], summary.steps)
    events = content["traceEvents"] = readable(trimmed(events), summary.function)
    # TensorBoard takes what stands before the digits for the worker's name, and every such file for one more span.
    name = content["traceName"] = f"{summary.variant}.{time.time_ns()}.pt.trace.json.gz"
    found = kernels(events, summary.function, summary.device)
    named = {phase if summary.variant == variant else f"{variant}/{phase}": n for (variant, phase), n in found.items()}
    rows = operators(events, summary.function, summary.device)
    folder = out / summary.function / summary.variant
    summary = replace(summary, kernels=named, trace=name, folder=str(folder))
    kept = {key: value for key, value in asdict(summary).items() if key not in ("status", "reason", "folder")}
    files = {
        name: gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9),
        "operators.csv": _as_csv(rows).encode(),
        "operators.txt": _as_text(rows, summary).encode(),
        "summary.json": f"{json.dumps(kept, indent=1)}\n".encode(),
    }
    if flame:
        graph = flame_graph(events, f"{summary.function}/{summary.variant}")
        files[FLAME] = json.dumps(graph, separators=(",", ":")).encode()
    if memory:
        files[MEMORY] = memory
    _replace(folder, files)
    return summary


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Moves the files into place; those of an earlier recording that have no successor go."""
    folder.mkdir(parents=True, exist_ok=True)
    old = {path for pattern in ("*.pt.trace.json*", FLAME, MEMORY) for path in folder.glob(pattern)}
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        for name, content in files.items():
            (Path(temporary) / name).write_bytes(content)
        for name in files:
            os.replace(Path(temporary) / name, folder / name)
    for path in old - {folder / name for name in files}:
        path.unlink()


def load_summaries(out: str | Path) -> list[dict[str, Any]]:
    """The `summary.json` of every run below `out`, in order of function and variant, each with its `folder`.

    A damaged one is skipped with a warning that names it.
    """
    found = []
    for path in sorted(Path(out).glob("*/*/summary.json")):
        try:
            summary = json.loads(path.read_text())
            TraceSummary(**summary)
            if not (path.parent / summary["trace"]).is_file():
                raise ValueError(f"the trace {summary['trace']!r} is not there")
        except (OSError, ValueError, TypeError, KeyError) as error:
            warnings.warn(f"{path}: damaged, skipped: {error}", stacklevel=2)
            continue
        found.append({**summary, "folder": str(path.parent)})
    return found


def load_operators(summaries: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of their `operators.csv`, each with what its summary says of the run; see `operators.COLUMNS`.

    Runs of `all` are left out: their variants have runs of their own. A damaged file is skipped with a warning.
    """
    import pandas as pd

    frames = [pd.DataFrame(columns=[*COLUMNS, *OF_RUN])]
    for summary in summaries:
        path = Path(summary["folder"]) / "operators.csv"
        if summary["variant"] == ALL:
            continue
        try:
            rows = pd.read_csv(path)
            if list(rows.columns) != list(COLUMNS):
                raise ValueError("its columns are not those of this version; record it again")
        except (OSError, ValueError) as error:
            warnings.warn(f"{path}: skipped: {error}", stacklevel=2)
            continue
        frames.append(rows.assign(**{name: summary[name] for name in OF_RUN}))
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _as_csv(rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_text(rows: Iterable[dict[str, Any]], summary: TraceSummary) -> str:
    """The table a reader without TensorBoard looks at: per phase, the operator with the most time of its own first."""
    lines = [
        f"{summary.function} {summary.variant}, {summary.workload}, {summary.dtype}, {summary.device}, "
        f"torch {summary.torch}, {summary.steps} steps",
        f"Times are profiled: they show where time goes, and are no measurements; a recorded step took "
        f"{summary.slowdown:g} times an unrecorded one. Each is a sum over steps.",
        "",
        f"{'self us':>12} {'total us':>12} {'kernels us':>12} {'launches':>8} {'calls':>6}  operator  input shapes",
    ]
    heading = None
    for row in sorted(rows, key=lambda row: (row["variant"], row["phase"] == "backward", -row["self_time_s"])):
        if heading != (row["variant"], row["phase"]):
            heading = row["variant"], row["phase"]
            lines += ["", "/".join(heading)]
        times = (row[name] * 1e6 for name in ("self_time_s", "total_time_s", "kernel_time_s"))
        lines.append(
            f"{' '.join(f'{us:12.1f}' for us in times)} {row['launches']:8} {row['calls']:6}  "
            f"{row['name']}  {row['input_shapes']}"
        )
    return "\n".join(lines) + "\n"
