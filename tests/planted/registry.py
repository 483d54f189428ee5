"""`spin` takes 200 us in its variant `eager` and 260 us in `python`, by the clock."""

from __future__ import annotations

import time
from types import SimpleNamespace

import torch

from autofn import Spec, Tolerance

SPIN_S = {"eager": 200e-6, "python": 260e-6}


def spin(seconds):
    def apply(x):
        end = time.perf_counter() + seconds
        y = x * 1.0
        while time.perf_counter() < end:
            pass
        return y

    return apply


def make_inputs(n, *, dtype, device, seed=0):
    return (torch.full((n,), 1e-40 if n == 2 else 1.0, dtype=dtype, device=device).requires_grad_(),)


SPEC = Spec(
    name="spin",
    reference=lambda x: x * 1.0,
    make_inputs=make_inputs,
    workloads={"tiny": {"n": 1}, "small": {"n": 2}, "large": {"n": 3}},
    tolerances={torch.float32: Tolerance(0, 0, "elements are copied")},
    version="1",
)


def names():
    return ("spin",)


def spec(name):
    return SPEC


def variants(name):
    return tuple(SimpleNamespace(name=variant, kind=variant) for variant in SPIN_S)


def load(name, variant, device="cpu"):
    return spin(SPIN_S[variant])
