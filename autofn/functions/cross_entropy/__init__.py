"""Cross entropy of logits and class indices, `loss = logsumexp(logits) - logits[target]`.

logits are (rows, classes), target (rows,) int64, weight (classes,) or None, without gradient. With lse = logsumexp of a
row, w the weights (1 where there are none), t its target and e = label_smoothing, the loss of a row is
    loss = (1 - e) * w[t] * (lse - logits[t]) + e / classes * sum(w * (lse - logits))
and 0 where t is ignore_index, which may be a class or not. reduction "none" gives these, (rows,), "sum" their sum and
"mean" that sum over the sum of w[t] of the rows that are not ignored. With q = (1 - e) * w[t] at t plus
e / classes * w, and g the gradient of a row's loss, the vjp is
    grad_logits = g * (sum(q) * exp(logits - lse) - q)
and 0 in an ignored row: where all are, the mean is NaN, as in torch, and the gradient 0. A masked class, whose logit is
-inf, has loss infinity where it is the target or e is above 0, and never a NaN in the gradient; a row of -inf alone is
NaN. Any other target that is no class raises IndexError on the CPU. On CUDA, where nothing waits for the values, it
fails an assertion in a kernel, or in `triton` without weights makes the loss NaN.
Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv:1805.02867; label smoothing:
Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", arXiv:1512.00567, section 7.

Half types are computed in float32, the reduction too.

Saved: logits, target and weight, all inputs, and in `fused`, `cpp` and `triton` lse: one float32 (float64 for float64)
a row. No probabilities: they would be as large as logits, and one exponential an element makes them again in the
backward. The rounding of lse is a relative error of the gradient: in float32 5e-4 where logits are about 10,000.
`python` recomputes the probabilities from logits alone, since it must be differentiable twice.
Freed: with the graph, when the backward has run.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import cross_entropy


def make_inputs(
    rows: int,
    classes: int,
    reduction: str = "mean",
    weighted: bool = False,
    label_smoothing: float = 0.0,
    *,
    dtype: torch.dtype,
    device: str,
    seed: int = 0,
) -> tuple[Any, ...]:
    """logits of shape (rows, classes), normal with deviation 3; one target in eight is ignored; weights about 1."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, generator=generator)
    target = torch.randint(classes, (rows,), generator=generator)
    target[torch.rand(rows, generator=generator) < 1 / 8] = -100
    weight = 0.5 + torch.rand(classes, generator=generator) if weighted else None
    return (
        logits.to(device, dtype).requires_grad_(),
        target.to(device),
        None if weight is None else weight.to(device, dtype),
        -100,
        reduction,
        label_smoothing,
    )


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: logits, target. Backward: logits, target, grad_logits. Without weight and loss, few beside these."""
    rows = workload["rows"]
    logits, target = rows * workload["classes"] * itemsize, rows * 8
    return of_phase(phase, forward=logits + target, backward=2 * logits + target)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """An element. Forward, 4: maximum, difference, exponential (taken for one operation), sum; smoothing is left out.

    Backward, 4: difference, exponential, product, difference.
    """
    elements = workload["rows"] * workload["classes"]
    return of_phase(phase, forward=4 * elements, backward=4 * elements)


SPEC = Spec(
    name="cross_entropy",
    reference=cross_entropy,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "classes": 7, "reduction": "none", "weighted": True, "label_smoothing": 0.1},
        "small": {"rows": 128, "classes": 512},
        "large": {"rows": 1024, "classes": 4096},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small, one of large.
        torch.float32: Tolerance(1e-5, 5e-7, "4 ulp (2**-23) of 1: p - 1 of a likely target; measured excess 5e-9"),
        torch.bfloat16: Tolerance(2**-7, 5e-7, "rounded once, half an ulp (2**-9) at most, margin of 4; no excess"),
        torch.float64: Tolerance(2e-14, 1e-15, "float32's, times 2**-29: the same sums with 29 more bits"),
    },
    version="1",
    integers=(1,),
    once_differentiable=frozenset({"fused", "cpp", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= 0 for python",  # recomputed
        "saved_new_bytes <= rows * max(4, itemsize)",  # the logarithm of the sum, a number a row in float32 at least
    ),
)
