"""liger-kernel 0.8.5: Triton kernels for the training of language models.

They are meant for GPUs. Without one they run in Triton's interpreter (TRITON_INTERPRET=1): what they compute can then
be checked on the CPU, in float32 alone, for Triton 3.7.1's interpreter multiplies bfloat16 wrongly. How fast they are
cannot be told.
"""

import torch
from spec_entmax import sparsemax

from autofn import Spec, Tolerance

PACKAGES = ("liger-kernel==0.8.5",)
WORKLOADS = {
    "tiny": {"rows": 5, "cols": 7},
    "small": {"rows": 16, "cols": 64},
    "large": {"rows": 4096, "cols": 1024},
}
TOLERANCES = {
    torch.float32: Tolerance(1e-5, 2e-6, "some ten roundings of numbers of size 1, half an ulp (2**-24) each"),
}


def cross_entropy(logits, target, weight=None, ignore_index=-100, z_loss=0.0, smoothing=0.0, reduction="mean"):
    """Cross entropy of logits and class indices, `logsumexp(logits) - logits[target]`."""
    return torch.nn.functional.cross_entropy(
        logits, target, weight, ignore_index=ignore_index, label_smoothing=smoothing, reduction=reduction
    )


def softmax(x):
    """Softmax of rows, `exp(x) / sum(exp(x))`."""
    return torch.softmax(x, -1)


def logits_and_target(rows, cols, *, dtype, device, seed=0):
    """Logits of shape (rows, cols), normal with deviation 3, and a class a row."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, cols, generator=generator)
    target = torch.randint(cols, (rows,), generator=generator)
    return logits.to(device, dtype).requires_grad_(), target.to(device), None, -100, 0.0, 0.0, "mean"


def rows(rows, cols, *, dtype, device, seed=0):
    """x of shape (rows, cols), normal with deviation 2."""
    generator = torch.Generator().manual_seed(seed)
    return ((2 * torch.randn(rows, cols, generator=generator)).to(device, dtype).requires_grad_(),)


def rows_and_dim(rows, cols, *, dtype, device, seed=0):
    """x as above, and the dimension."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(rows, cols, generator=generator)).to(device, dtype).requires_grad_(), -1


CROSS_ENTROPY = Spec(
    name="liger_cross_entropy",
    reference=cross_entropy,
    make_inputs=logits_and_target,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    mutates=(0,),  # by design: the gradient takes the place of the logits
    integers=(1,),
    variants={"triton": "liger_kernel.ops.cross_entropy:LigerCrossEntropyFunction"},
    only_on={"triton": "cuda"},
    requires=PACKAGES,
)
SOFTMAX = Spec(
    name="liger_softmax",
    reference=softmax,
    make_inputs=rows,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"triton": "liger_kernel.ops.softmax:LigerSoftmaxFunction"},
    only_on={"triton": "cuda"},
    requires=PACKAGES,
)
SPARSEMAX = Spec(
    name="liger_sparsemax",
    reference=sparsemax,
    make_inputs=rows_and_dim,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"triton": "liger_kernel.ops.sparsemax:LigerSparsemaxFunction"},
    only_on={"triton": "cuda"},
    requires=PACKAGES,
)
