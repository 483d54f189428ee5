"""The planted Functions of the trials, in the form of `autofn.registry`: an operation of known size, and slower twins.

`eager` is torch.clamp. `slower_<p>` does the same and then turns in a loop for p percent of the operation's time: how
many turns that takes is given by TRIAL_TURNS, as JSON {variant: {workload: turns}}; see calibration.py. `loop_<n>` does
nothing but n turns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch

from autofn import Spec, Tolerance

# About 3 us, 30 us, 300 us and 5 ms on one core of 2026.
SIZES = {"us3": 12_000, "us30": 330_000, "us300": 2_500_000, "ms5": 12_000_000}
# How much slower a variant is.
PLANTED = {"slower_5": 0.05, "slower_2": 0.02}
LOOPS = {"loop_1000": 1_000, "loop_11000": 11_000}


@dataclass(frozen=True)
class Variant:
    name: str
    kind: str


def clamp(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-1.0, 1.0)


def make_inputs(n: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, generator=generator).to(device, dtype).requires_grad_(),)


SPEC = Spec(
    name="clamp",
    reference=clamp,
    make_inputs=make_inputs,
    workloads={
        **{name: {"n": n} for name, n in SIZES.items()},
        "tiny": {"n": 7},
        "small": {"n": 64},
        "large": {"n": 512},
    },
    tolerances={torch.float32: Tolerance(0, 0, "elements are copied or replaced")},
    version="1",
    without={"compile": "not the subject"},
)


def names() -> tuple[str, ...]:
    return ("clamp",)


def spec(name: str) -> Spec:
    return SPEC


def variants(name: str) -> tuple[Variant, ...]:
    return tuple(Variant(variant, variant) for variant in ("eager", *PLANTED, *LOOPS))


def load(name: str, variant: str, device: str = "cpu") -> Callable[..., Any]:
    """The operation, followed by a loop of as many turns as the variant has for this size: none for `eager`."""
    if variant in LOOPS:
        return looping(LOOPS[variant])
    turns = json.loads(os.environ.get("TRIAL_TURNS", "{}")).get(variant, {})
    by_size = {size: turns.get(workload, 0) for workload, size in SIZES.items()}

    def planted(x: torch.Tensor) -> torch.Tensor:
        y = clamp(x)
        # No integers are made: beyond 256 that would make long loops cost more a turn than short ones.
        for _ in repeat(None, by_size[x.numel()]):
            pass
        return y

    return planted


def looping(turns: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in repeat(None, turns):
            pass
        return x

    return loop
