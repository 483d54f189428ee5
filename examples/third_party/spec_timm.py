"""timm 1.0.31: activations that keep their input alone and compute the rest again in the backward.

What is loaded is the one file that holds them: `import timm` needs torchvision, and these need torch alone.
"""

import sysconfig
from pathlib import Path

import torch

from autofn import Spec, Tolerance

PACKAGES = ("timm==1.0.31",)
FILE = Path(sysconfig.get_path("purelib"), "timm/layers/activations_me.py")
WORKLOADS = {"tiny": {"n": 50}, "small": {"n": 1 << 16}, "large": {"n": 1 << 22}}
TOLERANCES = {
    torch.float32: Tolerance(1e-5, 1e-6, "some ten roundings of numbers of size 1, half an ulp (2**-24) each"),
    torch.float64: Tolerance(1e-13, 1e-14, "float32's, times 2**-29, with margin"),
    torch.bfloat16: Tolerance(2**-5, 2**-6, "the same roundings, half an ulp (2**-9) each"),
}


def swish(x):
    """Swish, `x * sigmoid(x)`."""
    return x * torch.sigmoid(x)


def mish(x):
    """Mish, `x * tanh(log(1 + exp(x)))`."""
    return x * torch.tanh(torch.nn.functional.softplus(x))


def hard_swish(x):
    """Hard swish, `x * min(max(x + 3, 0), 6) / 6`."""
    return x * (x + 3).clamp(0, 6) / 6


def make_inputs(n, *, dtype, device, seed=0):
    """x of n numbers, normal with deviation 3: beyond the corners of hard swish, too."""
    generator = torch.Generator().manual_seed(seed)
    return ((3 * torch.randn(n, generator=generator)).to(device, dtype).requires_grad_(),)


SWISH = Spec(
    name="timm_swish",
    reference=swish,
    make_inputs=make_inputs,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": f"{FILE}:SwishAutoFn", "native": torch.nn.functional.silu},
    requires=PACKAGES,
    promises=("saved_new_bytes <= 0",),  # what "memory-efficient" means
)
MISH = Spec(
    name="timm_mish",
    reference=mish,
    make_inputs=make_inputs,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": f"{FILE}:MishAutoFn", "native": torch.nn.functional.mish},
    requires=PACKAGES,
    promises=("saved_new_bytes <= 0",),
)
HARD_SWISH = Spec(
    name="timm_hard_swish",
    reference=hard_swish,
    make_inputs=make_inputs,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": f"{FILE}:HardSwishAutoFn", "native": torch.nn.functional.hardswish},
    requires=PACKAGES,
    promises=("saved_new_bytes <= 0",),
)
