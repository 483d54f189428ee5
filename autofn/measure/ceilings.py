"""What this machine reaches: the bytes of a copy and the operations of a matrix product, by the usual sampler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ..records import CEILING, FAILED, UNAVAILABLE, Record
from ..spec import dtype_named
from . import machine, sampling

# Read plus written. Small: about what a forward of a `small` workload moves (128 x 512 floats in and out), so it stays
# in the L2 cache as that does; large: beyond every cache that a core has for itself.
COPIES = {"small": 512 * 1024, "large": 128 * 1024**2}
# Rows of the square factors, at most: large enough for full speed, 3 ms on a core and 1 ms on a GPU. Halved while a
# call takes longer than SLOW_S: without instructions for it, float16 reaches a fiftieth of float32 on a CPU.
PRODUCT = {"cpu": 512, "cuda": 4096}
FEWEST_ROWS, SLOW_S = 64, 0.02
# Seconds of sampling a ceiling: all of them take about a second.
BUDGET_S = 0.1
PROTOCOL = "ceiling/1"


@dataclass(frozen=True)
class Arm:
    """A ceiling: the call that is timed, and what one call does."""

    variant: str
    workload: str
    dtype: str
    call: Callable[[], Any]
    detail: Mapping[str, int] = field(default_factory=dict)


def measure(threads: int, dtypes: Sequence[str], device: str) -> list[Record]:
    """The copies and one matrix product a dtype, in this process with `threads` threads, as `time_s` of "ceiling".

    The value is the shortest sample: a busy neighbour only slows a machine down. The detail holds the bytes (read plus
    written) or the flops of a call. Outputs are made before the clock, so the allocator has no part in it. What this
    machine cannot do is a row with its reason.
    """
    common = {**machine.conditions(device, threads), "protocol": PROTOCOL}
    if device == "cuda" and not torch.cuda.is_available():
        return [_without(*names, device, common, UNAVAILABLE, "no CUDA device") for names in _names(dtypes)]
    with _threads(threads), torch.no_grad():
        found = list(_measure(dtypes, device, common))
    if device == "cuda":
        torch.cuda.empty_cache()
    return found


def copy(moved: int, device: str) -> Callable[[], Any]:
    """A call that reads moved / 2 bytes and writes as many."""
    source = torch.ones(moved // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def product(rows: int, dtype: str, device: str) -> Callable[[], Any]:
    """A call that multiplies two square matrices: 2 * rows**3 operations."""
    left, right = (torch.randn(rows, rows, device=device).to(dtype_named(dtype)) for _ in range(2))
    result = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=result)


def _names(dtypes: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    yield from (("copy", workload, "uint8") for workload in COPIES)
    yield from (("matmul", "large", dtype) for dtype in dtypes)


def _arm(variant: str, workload: str, dtype: str, device: str) -> Arm:
    if variant == "copy":
        moved = COPIES[workload]
        return Arm(variant, workload, dtype, copy(moved, device), {"bytes": moved})
    rows = PRODUCT[device]
    call = product(rows, dtype, device)
    while rows > FEWEST_ROWS and min(sampler(call, device)(1) for _ in range(2)) > SLOW_S:
        rows //= 2
        call = product(rows, dtype, device)
    return Arm(variant, workload, dtype, call, {"flops": 2 * rows**3})


def _measure(dtypes: Sequence[str], device: str, common: Mapping[str, Any]) -> Iterator[Record]:
    arms: list[Arm] = []
    samplers = {}
    for variant, workload, dtype in _names(dtypes):
        try:
            arm = _arm(variant, workload, dtype, device)
            sample = sampler(arm.call, device)
            samplers[str(len(arms))] = sample, sampling.calls_per_sample(sampling.warm_up(sample))
            arms.append(arm)
        except RuntimeError as error:  # a dtype without a matrix product here, or no memory for it
            reason = f"{type(error).__name__}: {error}"
            yield _without(variant, workload, dtype, device, common, FAILED, reason)
    for name, samples in sampling.interleave(samplers, BUDGET_S).items():
        told = {"value": min(samples.times_s), "samples": samples.times_s, "number": samples.number, "processes": 1}
        yield _record(arms[int(name)], device, common, **told)


def sampler(call: Callable[[], Any], device: str) -> sampling.Sample:
    """Seconds of a number of calls, until the device has done them all."""

    def sample(number: int) -> float:
        _synchronise(device)
        begin = time.perf_counter()
        for _ in range(number):
            call()
        _synchronise(device)
        return time.perf_counter() - begin

    return sample


def _synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _without(
    variant: str, workload: str, dtype: str, device: str, common: Mapping[str, Any], status: str, reason: str
) -> Record:
    return _record(Arm(variant, workload, dtype, lambda: None), device, common, status=status, reason=reason)


def _record(arm: Arm, device: str, common: Mapping[str, Any], **values: Any) -> Record:
    return Record(
        function=CEILING, variant=arm.variant, workload=arm.workload, dtype=arm.dtype, device=device,
        phase="forward", metric="time_s", unit="s", detail=dict(arm.detail), **values, **common,
    )  # fmt: skip
