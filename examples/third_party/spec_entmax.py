"""entmax 1.3: sparse mappings of rows onto the simplex, by sorting and by bisection.

Source: Peters, Niculae and Martins 2019, "Sparse Sequence-to-Sequence Models", arXiv:1905.05702; sparsemax: Martins and
Astudillo 2016, arXiv:1602.02068.
"""

import torch

from autofn import Spec, Tolerance

PACKAGES = ("entmax==1.3",)
WORKLOADS = {
    "tiny": {"rows": 5, "cols": 7},
    "small": {"rows": 128, "cols": 512},
    "large": {"rows": 4096, "cols": 1024},
}
TOLERANCES = {
    torch.float32: Tolerance(1e-4, 3e-5, "a threshold is a sum of up to 1,024 numbers of size 1, each rounded"),
    torch.float64: Tolerance(1e-12, 1e-12, "the same, with margin for 50 halvings of an interval of size 1"),
}


def sparsemax(x, dim=-1, k=None):
    """The projection of rows onto the simplex, `max(x - tau, 0)` with tau such that they sum to 1."""
    largest_first = x.sort(dim, descending=True).values
    sums = largest_first.cumsum(dim) - 1
    ranks = torch.arange(1, x.shape[dim] + 1, dtype=x.dtype, device=x.device)
    ranks = ranks.view([-1 if place == dim % x.dim() else 1 for place in range(x.dim())])
    size = (ranks * largest_first > sums).sum(dim, keepdim=True)
    return (x - sums.gather(dim, size - 1) / size).clamp(min=0)


def entmax15(x, dim=-1, k=None):
    """1.5-entmax of rows, `max(x / 2 - tau, 0)**2` with tau such that they sum to 1."""
    half = x / 2
    with torch.no_grad():
        support = _power(half, _threshold(half, 2.0, dim), 2.0) > 0
    size = support.sum(dim, keepdim=True)
    mean = (half * support).sum(dim, keepdim=True) / size
    spread = ((half - mean) ** 2 * support).sum(dim, keepdim=True)
    return (half - mean + ((1 - spread) / size).sqrt()).clamp(min=0) ** 2


def entmax(x, alpha=1.5, dim=-1, n_iter=50, ensure_sum_one=True):
    """alpha-entmax of rows, `max((alpha - 1) * x - tau, 0)**(1 / (alpha - 1))` with tau such that they sum to 1.

    tau is found by bisection; two steps of Newton's method then make it a function of x and alpha for autograd, right
    to the second derivative.
    """
    scaled, power = x * (alpha - 1), 1 / (alpha - 1)
    with torch.no_grad():
        tau = _threshold(scaled, power, dim)
    for _ in range(2):
        excess = _power(scaled, tau, power).sum(dim, keepdim=True) - 1
        tau = tau + excess / (power * _power(scaled, tau, power - 1).sum(dim, keepdim=True))
    return _power(scaled, tau, power)


def _power(x, tau, power):
    """`max(x - tau, 0)**power` without the NaN that the derivative of a power has at 0."""
    inside = x > tau
    return torch.where(inside, torch.where(inside, x - tau, 1) ** power, 0)


def _threshold(x, power, dim):
    """tau such that `max(x - tau, 0)**power` sums to 1, halved down to the last bit."""
    high = x.amax(dim, keepdim=True)
    low = high - 1
    for _ in range(60):
        middle = (low + high) / 2
        above = _power(x, middle, power).sum(dim, keepdim=True) >= 1
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return low


def rows(rows, cols, *, dtype, device, seed=0):
    """x of shape (rows, cols), normal with deviation 2, so that about one element in ten is in the support."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(rows, cols, generator=generator)).to(device, dtype).requires_grad_(), -1, None


def rows_and_alpha(rows, cols, *, dtype, device, seed=0):
    """x as above, and alpha of shape (rows, 1), between 1.25 and 1.75."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(rows, cols, generator=generator)
    alpha = 1.25 + torch.rand(rows, 1, generator=generator) / 2
    return x.to(device, dtype).requires_grad_(), alpha.to(device, dtype).requires_grad_(), -1, 50, True


SPARSEMAX = Spec(
    name="entmax_sparsemax",
    reference=sparsemax,
    make_inputs=rows,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": "entmax.activations:SparsemaxFunction"},
    requires=PACKAGES,
)
ENTMAX15 = Spec(
    name="entmax_entmax15",
    reference=entmax15,
    make_inputs=rows,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": "entmax.activations:Entmax15Function"},
    requires=PACKAGES,
)
BISECT = Spec(
    name="entmax_bisect",
    reference=entmax,
    make_inputs=rows_and_alpha,
    workloads=WORKLOADS,
    tolerances=TOLERANCES,
    version="1",
    variants={"python": "entmax.root_finding:EntmaxBisectFunction"},
    requires=PACKAGES,
)
