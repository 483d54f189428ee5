"""How good the Functions are: against what PyTorch offers, against the memory's speed, and against the truth.

    autofn bench -w large --phase forward_backward
    autofn bench -w large --phase forward_backward --threads 2
    autofn bench -w tiny -w long --phase forward_backward
    python -m trials.catalogue --out FOLDER

Reads the newest results in float32 on the CPU and writes FOLDER/catalogue.json and catalogue.md. "Own" is the faster of
`fused` and `cpp`, "theirs" the fastest of `eager`, `compile` and `native`; the verdict between the two is the ratio
paired by round, against what two arms of eager differ by in the same run. Shares are of a copy of about as many bytes
in the same run, each byte that the phase must move counted once.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

from autofn import results
from autofn.measure.verdict import judge_between
from autofn.rates import add_rates
from autofn.records import OK, is_ceiling, write_atomically
from autofn.speedups import nested

OWN, THEIRS = ("fused", "cpp"), ("eager", "compile", "native")
# Compiling keeps a mask for them, or unrolls their loop.
COMPILED_BADLY = ("binarize_ste", "clipped_relu", "dropout", "fake_quantize", "linear_scan", "relu")
SHARES = {
    **dict.fromkeys(("relu", "clipped_relu", "square", "round_ste", "dropout", "rope"), 80),
    **dict.fromkeys(("layer_norm", "rms_norm"), 70),
    **dict.fromkeys(("swiglu", "geglu", "softmax", "cross_entropy"), 60),
}
SCAN, SCAN_FACTOR = ("linear_scan", "long"), 50
PHASE = "forward_backward"
CASE = ["function", "variant", "workload", "threads", "phase", "metric"]

Rows = Mapping[str, Any]
"""variant -> its row."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--root", type=Path, default=Path(), help="the folder that holds .autofn")
    chosen = parser.parse_args()
    frame = results.load(chosen.root, sources=["runs"])
    ceilings = frame[is_ceiling(frame["function"])]
    here = frame[(frame["dtype"] == "float32") & (frame["device"] == "cpu") & (frame["source"] == "bench")]
    newest = here.sort_values("date", kind="stable").drop_duplicates(CASE, keep="last")
    times = newest[(newest["metric"] == "time_s") & (newest["phase"] == PHASE) & (newest["status"] == OK)]
    found = {
        "speed": list(_speed(_by_function(times, "large", 1))),
        "shares": list(_shares(add_rates(times[times["workload"] == "large"], ceilings))),
        "small": list(_small(_by_function(times, "tiny", 1))),
        "scan": _scan(_by_function(times, SCAN[1], 1)),
        "errors": list(_errors(newest[(newest["metric"] == "error") & (newest["status"] == OK)])),
    }
    said = {name: sorted(set(times[name].astype(str))) for name in ("machine", "device_model", "torch", "commit")}
    write_atomically(chosen.out / "catalogue.json", json.dumps({**said, **found}, indent=1) + "\n")
    text = "\n".join(_page(said, found)) + "\n"
    write_atomically(chosen.out / "catalogue.md", text)
    print(text)


def _by_function(times: pd.DataFrame, workload: str, threads: int) -> dict[str, Rows]:
    chosen = times[(times["workload"] == workload) & (times["threads"] == threads)]
    return {str(name): {row.variant: row for row in of.itertuples()} for name, of in chosen.groupby("function")}


def _fastest(rows: Rows, kinds: Sequence[str]) -> Any:
    """Of these kinds, whatever the suffix."""
    mine = [row for name, row in rows.items() if name.split("_")[0] in kinds]
    return min(mine, key=lambda row: row.value, default=None)


def _speed(functions: Mapping[str, Rows]) -> Iterator[dict[str, Any]]:
    """Own against theirs, where there are own kernels."""
    for name, rows in functions.items():
        own, theirs, base = _fastest(rows, OWN), _fastest(rows, THEIRS), rows.get("eager")
        if own is None or theirs is None or base is None:
            continue
        again = nested(base, base.detail["again"])
        found = judge_between(
            nested(base, base.samples), again, nested(theirs, theirs.samples), nested(own, own.samples)
        )
        yield {
            "function": name,
            "own": own.variant,
            "own_s": own.value,
            "theirs": theirs.variant,
            "theirs_s": theirs.value,
            "speedup": found.speedup.value,
            "low": found.speedup.low,
            "high": found.speedup.high,
            "verdict": found.word,
            "over_eager": base.value / own.value,
            "over_compile": rows["compile"].value / own.value if "compile" in rows else None,
        }


def _shares(times: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The share of a copy that the best own variant reaches, by threads."""
    for (name, threads), of in times.groupby(["function", "threads"]):
        own = _fastest({row.variant: row for row in of.itertuples()}, OWN)
        if own is not None and name in SHARES:
            yield {
                "function": name, "threads": int(threads), "own": own.variant, "percent": own.percent_of_ceiling,
                "bound": own.bound, "target": SHARES[str(name)],
            }  # fmt: skip


def _small(functions: Mapping[str, Rows]) -> Iterator[dict[str, Any]]:
    """The C++ variant beside `python` of the same Function, and beside native softmax of the same run."""
    native = functions.get("softmax", {}).get("native")
    for name, rows in functions.items():
        if "cpp" in rows and "python" in rows and native is not None:
            yield {
                "function": name,
                "cpp_s": rows["cpp"].value,
                "over_native_softmax": rows["cpp"].value / native.value,
                "over_python": rows["cpp"].value / rows["python"].value,
            }


def _scan(functions: Mapping[str, Rows]) -> dict[str, Any]:
    rows = functions.get(SCAN[0], {})
    if "eager" not in rows or "cpp" not in rows:
        return {}
    return {
        "eager_s": rows["eager"].value,
        "cpp_s": rows["cpp"].value,
        "factor": rows["eager"].value / rows["cpp"].value,
    }


def _errors(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Each own variant's error beside eager's."""
    for (name, workload, phase), of in rows[rows["threads"] == 1].groupby(["function", "workload", "phase"]):
        by_variant = dict(zip(of["variant"], of["value"], strict=True))
        eager = by_variant.get("eager")
        for variant, value in by_variant.items():
            if eager is not None and variant.split("_")[0] in OWN:
                ratio = value / eager if eager else (1.0 if value == 0 else math.inf)
                yield {"function": name, "workload": workload, "phase": phase, "variant": variant, "error": value,
                       "eager": eager, "ratio": ratio if math.isfinite(ratio) else None}  # fmt: skip


def _page(said: Mapping[str, Sequence[str]], found: Mapping[str, Any]) -> Iterator[str]:
    yield "# The Functions by measurement"
    yield ""
    where = ", ".join([*said["device_model"], *(f"torch {version}" for version in said["torch"])])
    yield f"{where}, float32, one training step (`{PHASE}`)."
    yield from _speed_table(found["speed"])
    yield from _share_table(found["shares"])
    yield from _small_table(found["small"])
    if found["scan"]:
        scan = found["scan"]
        yield from ("", "## The scan of 4,096 steps", "")
        times = f"eager {_time(scan['eager_s'])}, cpp {_time(scan['cpp_s'])}"
        yield f"{times}: {scan['factor']:.0f} times, at least {SCAN_FACTOR}."
    yield from _error_table(found["errors"])


def _speed_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", "## Large, one thread: own against the best of PyTorch's", "")
    yield "| Function | own | time | theirs | time | speedup | verdict | over compile | over eager |"
    yield "|---|---|--:|---|--:|--:|---|--:|--:|"
    for row in rows:
        bounds = f" ({row['low']:.2f} to {row['high']:.2f})" if row["low"] else ""
        over = f"{row['over_compile']:.2f}" if row["over_compile"] else "n/a"
        own, theirs = (f"{row[side]} | {_time(row[f'{side}_s'])}" for side in ("own", "theirs"))
        yield (
            f"| {row['function']} | {own} | {theirs} | "
            f"{row['speedup']:.2f}{bounds} | {row['verdict']} | {over} | {row['over_eager']:.2f} |"
        )
    yield ""
    for title, chosen in {
        "over compile": [row["over_compile"] for row in rows],
        "over compile, without those it compiles badly": [
            row["over_compile"] for row in rows if row["function"] not in COMPILED_BADLY
        ],
        "over eager": [row["over_eager"] for row in rows],
    }.items():
        there = [value for value in chosen if value]
        if there:
            yield f"Geometric mean {title}: {geometric_mean(there):.2f} of {len(there)} Functions."


def _share_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", "## Large: share of a copy", "", "| Function | variant | threads | share | at least |")
    yield "|---|---|--:|--:|--:|"
    for row in rows:
        bound = "" if row["bound"] == "bytes" else " (of a matrix product)"
        share = f"{row['percent']:.0f} %{bound} | {row['target']} %"
        yield f"| {row['function']} | {row['own']} | {row['threads']} | {share} |"


def _small_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from ("", "## Tiny: what a call costs", "")
    yield "| Function | cpp | over native softmax, at most 1.3 | over python, at most 0.5 |"
    yield "|---|--:|--:|--:|"
    for row in rows:
        yield (
            f"| {row['function']} | {_time(row['cpp_s'])} | {row['over_native_softmax']:.2f} | "
            f"{row['over_python']:.2f} |"
        )


def _error_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    beyond = [row for row in rows if row["ratio"] is None or row["ratio"] > 1.5]
    yield from ("", "## Errors against float64", "")
    yield f"{len(rows)} compared with eager's; {len(beyond)} beyond 1.5 times."
    if beyond:
        yield from (
            "",
            "| Function | workload | phase | variant | error | eager's | ratio |",
            "|---|---|---|---|--:|--:|--:|",
        )
    for row in beyond:
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else "n/a"
        yield (
            f"| {row['function']} | {row['workload']} | {row['phase']} | {row['variant']} | {row['error']:.2g} | "
            f"{row['eager']:.2g} | {ratio} |"
        )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


if __name__ == "__main__":
    main()
