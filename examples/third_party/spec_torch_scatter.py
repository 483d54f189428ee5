"""torch-scatter 2.1.2: reductions of the rows that share an index, Functions and kernels in C++.

It has no wheel in the package index: what installs is compiled for the torch that is there.
"""

import torch

from autofn import Spec, Tolerance

PACKAGES = ("torch-scatter==2.1.2",)
WORKLOADS = {
    "tiny": {"rows": 12, "cols": 5, "groups": 9},
    "small": {"rows": 1024, "cols": 64, "groups": 256},
    "large": {"rows": 65536, "cols": 64, "groups": 16384},
}
TOLERANCES = {
    torch.float32: Tolerance(1e-5, 1e-6, "products of some ten numbers, half an ulp (2**-24) each"),
    torch.float64: Tolerance(1e-13, 1e-14, "float32's, times 2**-29, with margin"),
}


def scatter_mul(src, index, dim, out, dim_size):
    """Products of the rows that share an index, 1 where there are none."""
    start = src.new_ones(dim_size, src.shape[1])
    return start.scatter_reduce(dim, index[:, None].expand_as(src), src, "prod")


def scatter_max(src, index, dim, out, dim_size):
    """Maxima of the rows that share an index, 0 where there are none."""
    start = src.new_zeros(dim_size, src.shape[1])
    return start.scatter_reduce(dim, index[:, None].expand_as(src), src, "amax", include_self=False)


def package_scatter_max(src, index, dim, out, dim_size):
    """The package's, without the rows that the maxima are from: whole numbers, which have no gradient to be timed."""
    from torch_scatter import scatter_max

    return scatter_max(src, index, dim, out, dim_size)[0]


def make_inputs(rows, cols, groups, *, dtype, device, seed=0):
    """src of shape (rows, cols), standard normal, so that no two are equal; an index a row."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randn(rows, cols, generator=generator)
    index = torch.randint(groups, (rows,), generator=generator)
    return src.to(device, dtype).requires_grad_(), index.to(device), 0, None, groups


MUL = Spec(
    name="scatter_mul",
    reference=scatter_mul,
    make_inputs=make_inputs,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    integers=(1,),
    variants={"cpp": "torch_scatter:scatter_mul"},
    requires=PACKAGES,
)
MAX = Spec(
    name="scatter_max",
    reference=scatter_max,
    make_inputs=make_inputs,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    integers=(1,),
    variants={"cpp": package_scatter_max},
    requires=PACKAGES,
)
