"""From which size on one variant is faster than another: where the ratio of their times crosses 1 between workloads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from . import registry
from .records import is_ceiling
from .speedups import TOGETHER
from .terms import unknown

if TYPE_CHECKING:
    from .spec import Spec

VARIANTS = ("python", "fused", "cpp")
# What one curve over sizes shares; each ratio on it is one of a single run.
CURVE = ["function", "dtype", "device", "phase", "machine", "threads", "allocator", "cache", "way"]
NONE = "none"
COLUMNS = (
    *CURVE, "first", "second", "result", "elements", "after", "before", "faster_below", "faster_above",
    "smallest", "largest", "clear",
)  # fmt: skip


class Point(NamedTuple):
    """Of two variants at one size. ratio: log(time of second / time of first), above 0 where the first is faster."""

    elements: float
    ratio: float
    clear: bool


Curve = Sequence[Point]


def break_even(speedups: pd.DataFrame, variants: Sequence[str] = VARIANTS, baseline: str = "eager") -> pd.DataFrame:
    """One row a crossing of two variants, for each pair of `variants` and for each of them over the baseline.

    speedups: the frame of `add_speedups`, or of `reporting.speedup.current`. The size of a workload is the number of
    elements of its largest input tensor. Between two of them log(ratio) is taken for linear in log(size).

    result: "crosses" or "none". elements: where they cross, NaN for none. after, before: the measured sizes on either
    side. faster_below, faster_above: the faster one on either side, the same one for none. smallest, largest: what was
    measured. clear: whether the ratios on either side, for none all of them, surely differ from 1: by the verdict over
    the baseline where there is one, else by the intervals. Pairs with fewer than two sizes in common have no row.
    """
    timed = speedups[~is_ceiling(speedups["function"]) & (speedups["speedup"] > 0)]
    rows = timed[timed["variant"].isin([baseline, *variants])].copy()
    rows["elements_of_workload"] = sizes_of(rows)
    rows = rows[rows["elements_of_workload"] > 0]
    made = [
        dict(zip(CURVE, key, strict=True)) | {"first": first, "second": second} | crossing
        for key, runs in _runs(rows).items()
        for first, second in itertools.combinations([baseline, *variants], 2)
        for crossing in _crossings(first, second, _curve(runs, first, second, baseline))
    ]
    return pd.DataFrame(made, columns=list(COLUMNS)).astype(
        dict.fromkeys(("elements", "after", "before", "smallest", "largest"), "float64")
    )


def elements(function: str, workload: str, dtype: str) -> int:
    """The elements of the largest input tensor of a workload. Raises LookupError for an unknown one."""
    return max(sizes(function, workload, dtype).values(), default=0)


@cache
def sizes(function: str, workload: str, dtype: str, *, floating: bool = False) -> dict[int, int]:
    """{position: elements} of the input tensors of a workload, or of those of floating point numbers.

    Nothing is allocated where the Spec makes its tensors by PyTorch alone. Raises LookupError for an unknown Function
    or workload.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    spec = registry.spec(function)
    if workload not in spec.workloads:
        raise unknown(f"{function} has no workload", workload, spec.workloads)
    try:
        with FakeTensorMode():
            inputs = _inputs(spec, workload, dtype)
    except Exception:  # inputs that come from values, from NumPy or from a file exist for real only
        inputs = _inputs(spec, workload, dtype)
    tensors = {position: t for position, t in enumerate(inputs) if isinstance(t, torch.Tensor)}
    return {position: t.numel() for position, t in tensors.items() if t.is_floating_point() or not floating}


def _inputs(spec: Spec, workload: str, dtype: str) -> tuple[Any, ...]:
    from .spec import dtype_named

    return spec.make_inputs(**spec.workloads[workload], dtype=dtype_named(dtype), device="cpu", seed=0)


def sizes_of(rows: pd.DataFrame) -> list[int]:
    """The elements of each row's workload, 0 where they are not known."""
    workload = ["function", "workload", "dtype", "version"]
    there = set(registry.every_name())
    known = {
        tuple(row)[1:]: _size_of(row) if row.function in there else 0
        for row in rows[workload].drop_duplicates().itertuples()
    }
    return [known[key] for key in zip(*(rows[name] for name in workload), strict=True)]


def _size_of(row: Any) -> int:
    """0 where the workload is not, or no longer, what was measured."""
    spec = registry.spec(row.function)
    if row.workload not in spec.workloads or row.version not in ("", spec.version):
        return 0
    return elements(row.function, row.workload, row.dtype)


def _runs(rows: pd.DataFrame) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Of each curve a dict a run: its rows by variant."""
    curves: dict[tuple[Any, ...], dict[tuple[str, ...], dict[str, Any]]] = {}
    for row in rows.itertuples():
        curve = curves.setdefault(tuple(getattr(row, column) for column in CURVE), {})
        run = curve.setdefault(tuple(str(getattr(row, column)) for column in TOGETHER), {})
        run[str(row.variant)] = row
    return {key: list(runs.values()) for key, runs in curves.items()}


def _curve(runs: Sequence[dict[str, Any]], first: str, second: str, baseline: str) -> Curve:
    """By size. Ratios of one run each; where a size was measured more than once, their geometric mean."""
    by_size: dict[float, list[Point]] = {}
    for found in runs:
        if first in found and second in found:
            one, two = found[first], found[second]
            size = float(one.elements_of_workload)
            point = Point(size, math.log(one.speedup / two.speedup), _clear(one, two, baseline))
            by_size.setdefault(size, []).append(point)
    return [
        Point(size, sum(point.ratio for point in points) / len(points), all(point.clear for point in points))
        for size, points in sorted(by_size.items())
    ]


def _clear(one: Any, two: Any, baseline: str) -> bool:
    """Whether two speedups surely differ; their two intervals together are wider than one of their ratio would be."""
    verdicts = [row.verdict for row in (one, two) if row.variant != baseline]
    if len(verdicts) == 1 and verdicts[0]:
        return verdicts[0] in ("faster", "slower")
    (low, high), (other_low, other_high) = (
        (1.0, 1.0) if row.variant == baseline else (row.speedup_low, row.speedup_high) for row in (one, two)
    )
    return bool(low > other_high or high < other_low)


def _crossings(first: str, second: str, curve: Curve) -> Iterator[dict[str, Any]]:
    """Where the curve changes its sign; a ratio of exactly 1 belongs to the side that it comes from."""
    if len(curve) < 2:
        return
    told = {"smallest": curve[0].elements, "largest": curve[-1].elements}
    apart = [point for point in curve if point.ratio]
    crossed = False
    for one, two in itertools.pairwise(apart):
        if (one.ratio > 0) == (two.ratio > 0):
            continue
        crossed = True
        share = one.ratio / (one.ratio - two.ratio)
        below, above = (first, second) if one.ratio > 0 else (second, first)
        yield told | {
            "result": "crosses", "elements": one.elements * (two.elements / one.elements) ** share,
            "after": one.elements, "before": two.elements, "faster_below": below, "faster_above": above,
            "clear": one.clear and two.clear,
        }  # fmt: skip
    if not crossed:
        # Equal at every size: neither is faster.
        always = "" if not apart else first if apart[0].ratio > 0 else second
        yield told | {
            "result": NONE, "elements": math.nan, "after": math.nan, "before": math.nan,
            "faster_below": always, "faster_above": always, "clear": all(point.clear for point in curve),
        }  # fmt: skip
