"""Cross entropy of a linear layer, `loss = mean(logsumexp(logits) - logits[target])`, `logits = hidden @ weight.T`.

hidden is (rows, features), weight (vocabulary, features), target (rows,) int64. A row whose target is ignore_index, in
the vocabulary or not, does not count; reduction is "mean" over the rows that do, or "sum". With p = softmax(logits),
q = 1 at a row's target and 0 elsewhere, and g = grad_output over the number of rows that count (mean) or grad_output
(sum), 0 in an ignored row, the vjp is
    grad_logits = g * (p - q)
    grad_hidden = grad_logits @ weight
    grad_weight = grad_logits.T @ hidden
Where all rows are ignored the mean is NaN, as in torch, and the gradients are 0. A target outside the vocabulary raises
IndexError on the CPU; on CUDA, where nothing waits for its values, an assertion of gather fails or the loss is NaN.

The logits, (rows, vocabulary), are what a language model's last layer needs most memory for. They never exist as a
whole, here, nor do their gradients: forward and backward work by chunks of at most 2**20 of them on the CPU (4 MiB in
float32) and 2**26 on CUDA, but no fewer than 32 rows, or words, a chunk. Two ways:
    python, fused, cpp, triton     by chunks of rows: a whole row's gradients follow from its logits at once, so that
                                   the forward computes those of hidden and weight, and the backward scales them
    python_recompute, cpp_recompute  by chunks of the vocabulary, which a running logsumexp goes over: the backward
                                   computes the logits again, a third matrix product more, and keeps no gradients
The first is faster where a gradient is needed; the second holds less memory between the passes.
Source: Hsu et al. 2024, "Liger Kernel: Efficient Triton Kernels for LLM Training", arXiv:2410.10989, for the first;
Wijmans et al. 2024, "Cut Your Losses in Large-Vocabulary Language Models", arXiv:2411.09009, for the second.

Half types: products have their factors' dtype; softmax, loss, and sums over chunks are float32. The running logsumexp
is float64 for all: in float32 a thousand chunks make its error 14 times that of one logsumexp, in float64 no larger.

Saved: hidden and weight, and of the first kind their gradients: without hidden and weight it could not refuse a second
derivative. Of the second kind target, and the logsumexp, one float32 (float64 for float64) a row.
Freed: with the graph, when the backward has run.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import linear_cross_entropy


def make_inputs(
    rows: int,
    features: int,
    vocabulary: int,
    reduction: str = "mean",
    *,
    dtype: torch.dtype,
    device: str,
    seed: int = 0,
) -> tuple[Any, ...]:
    """hidden standard normal, weight scaled by features**-0.5, so that logits are about 1; one target in 8 ignored."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, features, generator=generator)
    weight = torch.randn(vocabulary, features, generator=generator) * features**-0.5
    target = torch.randint(vocabulary, (rows,), generator=generator)
    target[torch.rand(rows, generator=generator) < 1 / 8] = -100
    return *(t.to(device, dtype).requires_grad_() for t in (hidden, weight)), target.to(device), -100, reduction


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: hidden, weight, target. Backward: the same, and both gradients. Logits need never leave the caches."""
    rows, features, vocabulary = (workload[name] for name in ("rows", "features", "vocabulary"))
    factors = (rows + vocabulary) * features * itemsize
    return of_phase(phase, forward=factors + rows * 8, backward=2 * factors + rows * 8)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """One product of matrices forward, two backward; all else is a few operations in 2 * features."""
    product = 2 * workload["rows"] * workload["features"] * workload["vocabulary"]
    return of_phase(phase, forward=product, backward=2 * product)


SPEC = Spec(
    name="linear_cross_entropy",
    reference=linear_cross_entropy,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "features": 7, "vocabulary": 11, "reduction": "sum"},
        "small": {"rows": 128, "features": 64, "vocabulary": 512, "reduction": "sum"},
        "large": {"rows": 1024, "features": 256, "vocabulary": 4096},
        "vocabulary_32k": {"rows": 512, "features": 128, "vocabulary": 32000},
    },
    tolerances={
        # Worst excess over rtol of any variant: 20 seeds of tiny and small.
        torch.float32: Tolerance(1e-5, 1.6e-6, "measured 5.2e-7, three times: eager's own sum over 128 rows"),
        torch.bfloat16: Tolerance(2**-6, 1.8e-2, "measured 6e-3, three times: logits are rounded to bfloat16"),
        torch.float64: Tolerance(2e-14, 5e-15, "measured 1.6e-15, three times"),
    },
    version="1",
    integers=(2,),
    suppress={
        "vmap (native)": "torch documents that its chunked path has no gradient under vmap: it gives 0 without a word"
    },
    once_differentiable=frozenset({"native", "python", "python_recompute", "fused", "cpp", "cpp_recompute", "triton"}),
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= (rows + vocabulary) * features * itemsize for python, fused, cpp, triton",  # both gradients
        "saved_new_bytes <= rows * max(4, itemsize) for python_recompute, cpp_recompute",  # the logsumexp
    ),
)
