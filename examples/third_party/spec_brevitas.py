"""brevitas 0.13.4: straight-through estimators for quantisation-aware training, as they are without BREVITAS_JIT."""

import torch

from autofn import Spec, Tolerance

PACKAGES = ("brevitas==0.13.4",)
WORKLOADS = {"tiny": {"n": 50}, "small": {"n": 1 << 16}, "large": {"n": 1 << 22}}
TOLERANCES = {
    dtype: Tolerance(
        4 * torch.finfo(dtype).eps, 0, "nothing is rounded but the sum of several gradients: one rounding each"
    )
    for dtype in (torch.float32, torch.float64, torch.bfloat16)
}


def identity(x, *_):
    """The surrogate: its gradient is grad_output as it came."""
    return x


def round_ste(x):
    """`round(x)` with the gradient of x."""
    return x - x.detach() + x.detach().round()


def absolute(x):
    """`abs(x)` with the gradient 1 at 0, where torch.abs has 0."""
    return torch.where(x >= 0, x, -x)


def clamp_ste(x, low, high):
    """`min(max(x, low), high)` with the gradient of x; the package writes it into x."""
    return x - x.detach() + x.detach().clamp(low, high)


def numbers(n, *, dtype, device, seed=0):
    """n normal numbers with deviation 3."""
    generator = torch.Generator().manual_seed(seed)
    return ((3 * torch.randn(n, generator=generator)).to(device, dtype).requires_grad_(),)


def numbers_and_limits(n, *, dtype, device, seed=0):
    """The same, and the limits -2 and 2 as tensors without gradient."""
    (x,) = numbers(n, dtype=dtype, device=device, seed=seed)
    return x, torch.tensor(-2.0, dtype=dtype, device=device), torch.tensor(2.0, dtype=dtype, device=device)


ROUND = Spec(
    name="brevitas_round_ste",
    reference=round_ste,
    make_inputs=numbers,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=identity,
    variants={"python": "brevitas.ops.autograd_ste_ops:RoundSteFn"},
    requires=PACKAGES,
)
ABSOLUTE = Spec(
    name="brevitas_abs",
    reference=absolute,
    make_inputs=numbers,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": "brevitas.ops.autograd_ste_ops:AbsBinarySignGradFn"},
    requires=PACKAGES,
)
CLAMP = Spec(
    name="brevitas_clamp_in_place",
    reference=clamp_ste,
    make_inputs=numbers_and_limits,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=identity,
    mutates=(0,),
    variants={"python": "brevitas.ops.autograd_ste_ops:InplaceTensorClampSteFn"},
    requires=PACKAGES,
)
