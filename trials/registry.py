"""The planted Functions of the trials, in the form of `autofn.registry`: an operation of known size, and slower twins.

`eager` is torch.clamp. `slower_<p>` does the same and then turns in a loop for p percent of the operation's time: how
many turns that takes is given by TRIAL_TURNS, as JSON {variant: {workload: turns}}, measured by the trial at its start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from autofn import Spec, Tolerance

# About 3 us, 30 us, 300 us and 5 ms on one core of 2026.
SIZES = {"us3": 12_000, "us30": 330_000, "us300": 2_500_000, "ms5": 12_000_000}


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
    turns = json.loads(os.environ.get("TRIAL_TURNS", "{}"))
    return tuple(Variant(variant, variant) for variant in ("eager", *turns))


def load(name: str, variant: str, device: str = "cpu") -> Callable[..., Any]:
    """The operation, followed by a loop of as many turns as the variant has for this size: none for `eager`."""
    turns = json.loads(os.environ["TRIAL_TURNS"]).get(variant, {})
    by_size = {size: turns.get(workload, 0) for workload, size in SIZES.items()}

    def planted(x: torch.Tensor) -> torch.Tensor:
        y = clamp(x)
        for _ in range(by_size[x.numel()]):
            pass
        return y

    return planted
