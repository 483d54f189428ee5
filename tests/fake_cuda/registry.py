"""The square, on a device that says whatever it is asked: 1 ms between any two marks, and throttled now and then.

`python` refuses to be captured in a graph.
"""

from __future__ import annotations

import importlib
import itertools
import time
from types import SimpleNamespace

import torch

from autofn import Spec, Tolerance

SPAN_S = 1e-3


class Clock:
    """A DeviceClock. Every fourth state that it is asked for is a throttled one, the first of them the fourth."""

    def __init__(self, state):
        self.state_of = state
        self.asked = itertools.count(1)

    def __call__(self):
        return time.perf_counter()

    def mark(self):
        return None

    def elapsed(self, begin, end):
        return SPAN_S

    def synchronise(self):
        pass

    def flush(self):
        pass

    def capture(self, *steps):
        capturing.append(True)
        try:
            for step in steps:
                step()
        finally:
            capturing.clear()
        return steps

    def state(self):
        throttle = ("power cap",) if next(self.asked) % 4 == 0 else ()
        return self.state_of(sm_mhz=1980, memory_mhz=2619, temperature_c=40, throttle=throttle)


capturing = []


def take_the_cpu_for_a_device():
    """Before anything is forked; in the process of the tests itself nothing is replaced."""
    device_clock = importlib.import_module("autofn_harness.measure.device_clock")
    device_clock.clock_of = lambda case: Clock(device_clock.State)
    torch.cuda.synchronize = lambda device=None: None


take_the_cpu_for_a_device()


def square(x):
    return x * x


def refusing(x):
    if capturing:
        raise RuntimeError("operation not permitted when stream is capturing")
    return x * x


def make_inputs(n, *, dtype, device, seed=0):
    return (torch.ones(n, dtype=dtype).requires_grad_(),)


SPEC = Spec(
    name="square",
    reference=square,
    make_inputs=make_inputs,
    workloads={"tiny": {"n": 1}, "small": {"n": 2}, "large": {"n": 3}},
    tolerances={torch.float32: Tolerance(0, 0, "exact")},
    version="1",
)
VARIANTS = {"eager": square, "python": refusing}


def names():
    return ("square",)


def spec(name):
    return SPEC


def variants(name):
    return tuple(SimpleNamespace(name=variant, kind=variant) for variant in VARIANTS)


def load(name, variant, device="cpu"):
    return VARIANTS[variant]
