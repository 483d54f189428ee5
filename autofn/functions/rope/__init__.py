"""Rotary position embedding: each pair of features turned by an angle, `(a * cos - b * sin, b * cos + a * sin)`.

x and y are (..., positions, features); cos and sin are (positions, pairs), the cosine and sine of an angle for each
position and pair. The first 2 * pairs features are turned, the rest passes through. Pair i is (a, b) =
    (x[i], x[pairs + i])        the halves, as in GPT-NeoX and Llama, where interleaved is False
    (x[2 * i], x[2 * i + 1])    neighbours, as in RoFormer and GPT-J, where it is True
The vjp of grad_output is the turn by the opposite angle, and that of the turn is again a turn:
    grad_x = rope(grad_output, cos, -sin)
The tables are constants: they have no gradient, and one that requires grad is refused (all but `eager` and `compile`),
since a gradient for it would keep x alive until the backward.
Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864.

Half types are computed in float32 and rounded once.

Saved: cos and sin, which are inputs; neither x nor y, for a turn is linear.
Freed: with the graph, when the backward has run. Differentiable any number of times, in every variant.

There is no `native` variant: PyTorch has no such operator.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import rope


def make_inputs(
    batch: int,
    heads: int,
    positions: int,
    features: int,
    pairs: int,
    interleaved: bool,
    *,
    dtype: torch.dtype,
    device: str,
    seed: int = 0,
) -> tuple[Any, ...]:
    """x of shape (batch, heads, positions, features), standard normal; the angles are those of the paper."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, heads, positions, features, generator=generator)
    angles = torch.arange(positions)[:, None] / 10000 ** (torch.arange(pairs) / pairs)
    cos, sin = (table.to(device, dtype) for table in (angles.cos(), angles.sin()))
    return x.to(device, dtype).requires_grad_(), cos, sin, interleaved


def _elements(workload: Workload) -> tuple[int, int]:
    """How many elements x has, and how many of them are turned."""
    rows = workload["batch"] * workload["heads"] * workload["positions"]
    return rows * workload["features"], rows * 2 * workload["pairs"]


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, cos, sin, y. Backward: grad_output, cos, sin, grad_x."""
    elements, _ = _elements(workload)
    one = (2 * elements + 2 * workload["positions"] * workload["pairs"]) * itemsize
    return of_phase(phase, forward=one, backward=one)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """A turned element: two products and a sum, in either direction."""
    _, turned = _elements(workload)
    return of_phase(phase, forward=3 * turned, backward=3 * turned)


TINY = {"batch": 2, "heads": 3, "positions": 5, "features": 10, "pairs": 3}
SMALL = {"batch": 2, "heads": 4, "positions": 64, "features": 128, "pairs": 32}
LARGE = {"batch": 4, "heads": 8, "positions": 1024, "features": 128, "pairs": 64}

SPEC = Spec(
    name="rope",
    reference=rope,
    make_inputs=make_inputs,
    workloads={
        "tiny": {**TINY, "interleaved": False},
        "small": {**SMALL, "interleaved": False},
        "large": {**LARGE, "interleaved": False},
        "tiny_interleaved": {**TINY, "interleaved": True},
        "small_interleaved": {**SMALL, "interleaved": True},
        "large_interleaved": {**LARGE, "interleaved": True},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large, both layouts.
        torch.float32: Tolerance(1e-6, 4e-7, "measured 1.2e-7, three times: the difference of two products may cancel"),
        torch.bfloat16: Tolerance(2**-7, 4e-7, "rounded once, half an ulp (2**-8) at most, margin of 2; atol as above"),
        torch.float64: Tolerance(2e-15, 8e-16, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=("saved_new_bytes <= 0",),  # cos and sin are inputs
)
