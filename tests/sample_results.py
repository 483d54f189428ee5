"""Made-up results in the files that measuring leaves behind: nothing here was measured."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autofn.records import Journal, Record
from autofn.tracing import TraceSummary, files

VARIANTS = {"eager": 1.0, "compile": 0.72, "python": 0.9, "fused": 0.5, "cpp": 0.4, "cpp_seeded": 0.43, "triton": 0.0}
WORKLOADS = {"tiny": 6e-6, "small": 6e-5, "large": 1.4e-2}
PHASES = {"forward": 0.4, "backward": 0.6, "forward_backward": 1.0, "inference": 0.35}
DTYPES = {"float32": 1.0, "bfloat16": 0.6, "float64": 2.0}
CONDITIONS = {
    "machine": "bench-1",
    "device_model": "EPYC 7B13",
    "torch": "2.13.0+cpu",
    "threads": 1,
    "allocator": "stock",
}
HOSTILE = "<script>alert(1)</script>"


def record(**changed: Any) -> Record:
    """A time of 1 ms of a case, with the fields given instead."""
    given: dict[str, Any] = {
        "function": "clipped_relu", "variant": "eager", "workload": "small", "dtype": "float32", "device": "cpu",
        "phase": "forward", "metric": "time_s", "unit": "s", "value": 1e-3, "low": 0.9e-3, "high": 1.1e-3,
        "source": "bench", "run": "r1", "commit": "c" * 40, "date": "2026-11-20T10:00:00+00:00", **CONDITIONS,
    } | changed  # fmt: skip
    if given.get("status", "ok") != "ok":
        given |= {"value": changed.get("value"), "low": None, "high": None}
    return Record(**given)


def bench_records(functions: Sequence[str], **changed: Any) -> list[Record]:
    """Times and memory of every case; triton is n/a, compile fails on one workload."""
    made = []
    for function, variant, workload, dtype in itertools.product(functions, VARIANTS, WORKLOADS, DTYPES):
        case = {"function": function, "variant": variant, "workload": workload, "dtype": dtype, **changed}
        for phase, share in PHASES.items():
            made.append(_time({**case, "phase": phase}, share * (1 + 0.1 * len(function))))
        if variant != "triton":
            made += _memory(case)
    return made


def _time(case: dict[str, Any], share: float) -> Record:
    if case["variant"] == "triton":
        return record(**case, status="n/a", reason="runs on cuda only, not on cpu")
    if case["variant"] == "compile" and case["workload"] == "large" and case["dtype"] == "float64":
        return record(**case, status="failed", reason="was not compiled: Dynamo's recompile limit (8) was reached")
    value = WORKLOADS[case["workload"]] * DTYPES[case["dtype"]] * VARIANTS[case["variant"]] * share + 2e-6
    samples = tuple(value * (1 + 0.01 * math.sin(i)) for i in range(12))
    return record(**case, value=value, low=value * 0.97, high=value * 1.04, samples=samples, processes=6)


def _memory(case: dict[str, Any]) -> list[Record]:
    size = {"tiny": 140, "small": 262144, "large": 16777216}[case["workload"]]
    own = 0 if case["variant"] in ("cpp", "cpp_seeded", "python") else size
    ledger = [{"shape": [size // 4], "dtype": case["dtype"], "bytes": size, "alias": "output 0"}]
    if own:
        ledger.append({"shape": [size // 4], "dtype": "bool", "bytes": own, "alias": "new"})
    rows = {"saved_bytes": size + own, "saved_new_bytes": own, "held_bytes": own, "peak_bytes": 2 * size}
    return [
        record(**case, phase="forward", metric=metric, unit="bytes", value=float(value), low=None, high=None,
               detail={"ledger": ledger} if metric == "saved_bytes" else {})
        for metric, value in rows.items()
    ]  # fmt: skip


def check_records(functions: Sequence[str], **changed: Any) -> list[Record]:
    """Rules kept by all, but for one gradient of `fused` in bfloat16; triton could not be checked."""
    made = []
    rules = ("value", "gradient", "gradcheck", "double-backward", "wrong-shape")
    for function, variant, rule, dtype in itertools.product(functions, VARIANTS, rules, ("float32", "bfloat16")):
        case = {"function": function, "variant": variant, "dtype": dtype, "phase": "check", "metric": rule, **changed}
        case |= {"source": "check", "unit": "", "run": "check-1", "low": None, "high": None}
        if variant == "triton":
            made.append(record(**case, status="n/a", reason="runs on cuda only, not on cpu"))
        elif (variant, rule, dtype) == ("fused", "gradient", "bfloat16"):
            reason = "grad of input 0 is off by 0.031 at [3, 4], allowed is 0.008; worst of 20 seeds"
            made.append(record(**case, status="failed", value=0.031, reason=reason))
        else:
            made.append(record(**case, value=3.1e-7))
    return made


def write_run(root: Path, name: str, records: Sequence[Record]) -> None:
    Journal(root / ".autofn" / "runs" / f"{name}.jsonl").append(records)


def commit_history(root: Path, subjects: Sequence[str]) -> list[str]:
    """A git repository at `root` with an empty commit a subject, a day apart; the hashes, the oldest first."""
    environment = {
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin",
        "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b.c",
    }  # fmt: skip

    def git(*words: str, date: str = "") -> str:
        dated = {**environment, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else environment
        run = subprocess.run(["git", "-C", str(root), *words], env=dated, check=True, capture_output=True, text=True)
        return run.stdout.strip()

    git("init", "--quiet")
    for day, subject in enumerate(subjects, start=1):
        git("commit", "--quiet", "--allow-empty", "-m", subject, date=f"2026-11-{day:02}T12:00:00+00:00")
    return git("log", "--reverse", "--format=%H").split()


def write_asv(root: Path, functions: Sequence[str], hashes: Sequence[str]) -> None:
    """One result file a commit, as asv (API version 2) writes it; cpp gets faster, and fails at the third commit."""
    folder = root / ".asv" / "results" / "bench-1"
    folder.mkdir(parents=True)
    machine = {
        "machine": "bench-1",
        "cpu": "EPYC 7B13",
        "num_cpu": "16",
        "os": "Linux",
        "arch": "x86_64",
        "ram": "64GB",
    }
    (folder / "machine.json").write_text(json.dumps({**machine, "version": 1}))
    for day, name in enumerate(hashes):
        results = {f"timing.{function}.{phase}_time": _packed(phase, day) for function in functions for phase in PHASES}
        content = {
            "commit_hash": name, "env_name": "existing", "date": 1793534400000 + day * 86400000, "params": machine,
            "python": "3.11", "requirements": {"torch": "2.13.0"}, "env_vars": {}, "durations": {}, "version": 2,
            "result_columns": [
                "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b",
            ],
            "results": results,
        }  # fmt: skip
        (folder / f"{name[:8]}-existing.json").write_text(json.dumps(content))
        Journal(root / ".asv" / "journal" / name / "existing" / "timing.jsonl").append(_journal(functions, name, day))


def _journal(functions: Sequence[str], commit: str, day: int) -> list[Record]:
    """What asv does not keep: the conditions, and why cpp failed."""
    made = []
    for function, phase in itertools.product(functions, PHASES):
        for variant, workload, value in _values(phase, day):
            found = {"value": value, "low": value * 0.97, "high": value * 1.03}
            if (variant, day) == ("cpp", 2):
                found = {"status": "failed", "reason": "the extension did not build"}
            case = {"function": function, "variant": variant, "workload": workload, "phase": phase, "commit": commit}
            run = {"source": "asv", "run": f"asv-{day}-{function}", "version": "1", "protocol": "1"}
            made.append(record(**case, **run, **found))
    return made


def _values(phase: str, day: int) -> list[tuple[str, str, float]]:
    return [
        (name, size, WORKLOADS[size] * VARIANTS[name] * PHASES[phase] * (1 - 0.05 * day * (name == "cpp")))
        for name, size in itertools.product(("eager", "python", "fused", "cpp"), WORKLOADS)
    ]


def _packed(phase: str, day: int) -> list[Any]:
    axes = [["eager", "python", "fused", "cpp"], list(WORKLOADS), ["float32"], ["cpu"]]
    values = [None if (variant, day) == ("cpp", 2) else value for variant, _, value in _values(phase, day)]
    bound = [None if value is None else value * 0.97 for value in values]
    upper = [None if value is None else value * 1.03 for value in values]
    return [values, [[repr(name) for name in axis] for axis in axes], "1", 0, 1.0, bound, upper]


def write_traces(root: Path, functions: Sequence[str]) -> None:
    """Of eager and cpp a run each with two steps of both phases, each 80 us with one operator called twice inside."""
    exported = root / "exported.json"
    for function, (variant, kernel) in itertools.product(functions, {"eager": "aten::mul", "cpp": HOSTILE}.items()):
        events = []
        for step, (phase, start) in itertools.product((0, 1), (("forward", 0), ("backward", 100))):
            begin = 200 * step + start
            events += [
                _event("user_annotation", f"{function}/{variant}/{phase}", begin, 80),
                _event("cpu_op", kernel, begin + 10, 20, [[128, 512]]),
                _event("cpu_op", kernel, begin + 40, 30, [[512]]),
            ]
        exported.write_text(json.dumps({"traceEvents": events}))
        summary = TraceSummary(
            function, variant, "small", "float32", "cpu", torch="2.13.0+cpu", date="2026-11-20T10:00:00+00:00", steps=2,
            slowdown=1.5,
        )  # fmt: skip
        files.write(summary, exported, root / "traces")
    exported.unlink()


def _event(category: str, name: str, ts: float, dur: float, shapes: Sequence[Sequence[int]] = ()) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur,
            "args": {"Input Dims": shapes}}  # fmt: skip


def write_everything(root: Path, functions: Sequence[str] = ("clipped_relu", "exp", "own_function")) -> list[str]:
    """A root with all kinds of results, one file of them damaged."""
    subjects = [
        "Start",
        f"Handle {HOSTILE} & co",
        "cpp: break it",
        "cpp: repair and vectorise it",
        "Tidy",
        "cpp: unroll",
    ]
    hashes = commit_history(root, subjects)
    write_asv(root, functions, hashes)
    write_run(root, "bench", bench_records(functions, commit=hashes[-1]))
    write_run(root, "dirty", bench_records(functions[:1], commit=f"{hashes[-1]}+dirty", run="r2", allocator="settled"))
    write_run(root, "check", check_records(functions, commit=hashes[-1]))
    write_run(root, "hostile", [record(variant=f"python_{HOSTILE}", run="r3", function=functions[-1])])
    write_traces(root, functions[:2])
    (root / ".autofn" / "runs" / "damaged.jsonl").write_text('{"function": "exp"\n')
    return hashes
