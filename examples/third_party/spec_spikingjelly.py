"""spikingjelly 2.0.0: spikes, `1 where u >= 0`, with the gradient of something smooth instead.

Its parts that load data need torchvision and torchaudio; its surrogates need torch alone.
"""

import math

import torch

from autofn import Spec, Tolerance

PACKAGES = ("spikingjelly==2.0.0",)
WORKLOADS = {"tiny": {"n": 50}, "small": {"n": 1 << 16}, "large": {"n": 1 << 22}}
TOLERANCES = {
    torch.float32: Tolerance(1e-5, 1e-6, "some ten roundings of numbers of size 1, half an ulp (2**-24) each"),
    torch.float64: Tolerance(1e-13, 1e-14, "float32's, times 2**-29, with margin"),
    torch.bfloat16: Tolerance(2**-5, 2**-6, "the same roundings, half an ulp (2**-9) each"),
}


def soft_step(u, alpha):
    """The surrogate of atan, `atan(pi / 2 * alpha * u) / pi`."""
    return torch.atan(math.pi / 2 * alpha * u) / math.pi


def two_exponentials(u, alpha):
    """The surrogate of piecewise_exp, `sign(u) * (1 - exp(-alpha * abs(u))) / 2`."""
    return torch.where(u < 0, (torch.exp(alpha * -u.abs()) - 1) / 2, (1 - torch.exp(-alpha * u.abs())) / 2)


def atan(u, alpha):
    """A spike, `1 where u >= 0`, with the gradient of `atan(pi / 2 * alpha * u) / pi`."""
    return _with_gradient_of(soft_step(u, alpha), u >= 0)


def piecewise_exp(u, alpha):
    """A spike, `1 where u >= 0`, with the gradient `alpha / 2 * exp(-alpha * abs(u))`."""
    return _with_gradient_of(two_exponentials(u, alpha), u >= 0)


def _with_gradient_of(smooth, spikes):
    return smooth - smooth.detach() + spikes.to(smooth.dtype)


def potentials(n, *, dtype, device, seed=0):
    """n standard normal potentials, and the package's default alpha of atan, 2."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator).to(device, dtype).requires_grad_(), 2.0


def potentials_and_one(n, *, dtype, device, seed=0):
    """The same, and the package's default alpha of piecewise_exp, 1."""
    return potentials(n, dtype=dtype, device=device, seed=seed)[0], 1.0


ATAN = Spec(
    name="spikingjelly_atan",
    reference=atan,
    make_inputs=potentials,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=soft_step,
    variants={"python": "spikingjelly.activation_based.surrogate:atan"},
    requires=PACKAGES,
)
PIECEWISE_EXP = Spec(
    name="spikingjelly_piecewise_exp",
    reference=piecewise_exp,
    make_inputs=potentials_and_one,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=two_exponentials,
    variants={"python": "spikingjelly.activation_based.surrogate:piecewise_exp"},
    requires=PACKAGES,
)
