"""snntorch 1.0.0: spikes, `1 where u > 0`, with the gradient of something smooth instead."""

import math

import torch

from autofn import Spec, Tolerance

PACKAGES = ("snntorch==1.0.0",)
WORKLOADS = {"tiny": {"n": 50}, "small": {"n": 1 << 16}, "large": {"n": 1 << 22}}
TOLERANCES = {
    torch.float32: Tolerance(1e-5, 1e-6, "some ten roundings of numbers of size 1, half an ulp (2**-24) each"),
    torch.float64: Tolerance(1e-13, 1e-14, "float32's, times 2**-29, with margin"),
}


def soft_sigmoid(u, slope):
    """The surrogate of fast_sigmoid, `u / (1 + slope * abs(u))`."""
    return u / (1 + slope * u.abs())


def soft_step(u, alpha):
    """The surrogate of atan, `atan(pi / 2 * alpha * u) / pi`."""
    return torch.atan(math.pi / 2 * alpha * u) / math.pi


def fast_sigmoid(u, slope):
    """A spike, `1 where u > 0`, with the gradient of `u / (1 + slope * abs(u))`."""
    return _with_gradient_of(soft_sigmoid(u, slope), u > 0)


def atan(u, alpha):
    """A spike, `1 where u > 0`, with the gradient of `atan(pi / 2 * alpha * u) / pi`."""
    return _with_gradient_of(soft_step(u, alpha), u > 0)


def _with_gradient_of(smooth, spikes):
    return smooth - smooth.detach() + spikes.to(smooth.dtype)


def potentials(n, *, dtype, device, seed=0):
    """n standard normal potentials, and the package's default slope, 25."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator).to(device, dtype).requires_grad_(), 25.0


def potentials_and_alpha(n, *, dtype, device, seed=0):
    """The same, and the package's default alpha, 2."""
    return potentials(n, dtype=dtype, device=device, seed=seed)[0], 2.0


FAST_SIGMOID = Spec(
    name="snntorch_fast_sigmoid",
    reference=fast_sigmoid,
    make_inputs=potentials,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=soft_sigmoid,
    variants={"python": "snntorch.surrogate:FastSigmoid"},
    requires=PACKAGES,
)
ATAN = Spec(
    name="snntorch_atan",
    reference=atan,
    make_inputs=potentials_and_alpha,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    surrogate=soft_step,
    variants={"python": "snntorch.surrogate:ATan"},
    requires=PACKAGES,
)
