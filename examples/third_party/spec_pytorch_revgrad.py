"""pytorch-revgrad 0.2.0: gradient reversal, `y = x` with the gradient of `-alpha * x`.

Source: Ganin and Lempitsky 2015, "Unsupervised Domain Adaptation by Backpropagation", arXiv:1409.7495.
"""

import torch

from autofn import Spec, Tolerance


def reversed_gradient(x, alpha):
    """`x` with the gradient of `-alpha * x`."""
    other = -alpha * x
    return other - other.detach() + x.detach()


def scaled(x, alpha):
    """The surrogate: what has that gradient by itself."""
    return -alpha * x


def make_inputs(n, *, dtype, device, seed=0):
    """n standard normal numbers, and alpha, 0.5, a tensor without gradient."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, generator=generator).to(device, dtype).requires_grad_()
    return x, torch.tensor(0.5, dtype=dtype, device=device)


SPEC = Spec(
    name="revgrad",
    reference=reversed_gradient,
    make_inputs=make_inputs,
    workloads={"tiny": {"n": 50}, "small": {"n": 1 << 16}, "large": {"n": 1 << 22}},
    tolerances={
        dtype: Tolerance(
            4 * torch.finfo(dtype).eps, 0, "nothing is rounded but the sum of several gradients: one rounding each"
        )
        for dtype in (torch.float32, torch.float64, torch.bfloat16)
    },
    version="1",
    surrogate=scaled,
    views=(0,),
    variants={"python": "pytorch_revgrad.functional:RevGrad"},
    requires=("pytorch-revgrad==0.2.0",),
)
