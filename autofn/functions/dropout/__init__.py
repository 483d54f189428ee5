"""Inverted dropout, `y = x / (1 - p)` where an element is kept and 0 where it is dropped, from a seed.

x and y have one shape, any shape; p is the probability of being dropped, a Python number at least 0 and below 1 (with
p = 0 y equals x; p = 1 is an error); seed is a Python integer of 64 bits. The vjp of grad_output is
    grad_x = grad_output / (1 - p) where an element is kept, 0 where it is dropped
A dropped element is 0, and its gradient too, whatever it held: NaN and infinity go with it.
Source: Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov 2014, "Dropout: A Simple Way to Prevent Neural
Networks from Overfitting", JMLR 15; scaled in training instead of in inference.

Which elements are dropped is a function of seed and element index alone, counted row by row whatever the strides. All
variants, devices and dtypes drop the same ones, no generator has a state, and a backward can draw the mask again. Two
calls that must be independent take two seeds; near ones will do. x has at most 2**31 elements.

The function is counter-based, as in Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": the element's
index times the golden ratio, then the three rounds of Wellons' triple32, `h = (h ^ h >> shift) * factor`
(https://github.com/skeeto/hash-prospector), with one word made of the seed before the first round and one after it, so
that the mask of another seed is no shifted copy. An element is dropped where these 32 bits are among the lowest
p * 2**32. Tested, none of it off by more than chance: the share of dropped elements, elements of one mask at any
distance, patterns of 16 neighbours, masks of seeds that differ by a small number or in any one or two bits, the same
element over many seeds. It is no cryptographic generator. Philox-4x32-10 has more behind it, and takes about three
times the operations, which a pass at the speed of memory cannot hide.

Two ways to know the mask in the backward:
    python, fused, cpp, triton   draw it again from the seed
    python_mask, cpp_mask        keep it, one bit an element
Saved: nothing, or the mask: ceil(elements / 8) bytes. Freed: with the graph, when the backward has run. y is linear in
x, so every variant is differentiable any number of times: each backward is the same function, of grad_output.

There is no `native` variant: torch's dropout takes the mask from torch's generators, and drops other elements.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .reference import dropout


def make_inputs(rows: int, cols: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal; a quarter is dropped."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, cols, generator=generator)
    return x.to(device, dtype).requires_grad_(), 0.25, 20140601 + seed


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, grad_x; the mask need not be kept."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=2 * elements * itemsize, backward=2 * elements * itemsize)


def operations(phase: str, workload: Workload, itemsize: int) -> int:
    """A product an element; the hash is integer arithmetic."""
    elements = workload["rows"] * workload["cols"]
    return of_phase(phase, forward=elements, backward=elements)


SPEC = Spec(
    name="dropout",
    reference=dropout,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7},
        "small": {"rows": 128, "cols": 512},
        "large": {"rows": 4096, "cols": 1024},
    },
    tolerances={
        torch.float32: Tolerance(2**-22, 0, "1 ulp (2**-23), half of the factor's, half of the product's; margin of 2"),
        torch.bfloat16: Tolerance(2**-7, 0, "rounded once, half an ulp (2**-8); Triton's interpreter cuts off instead"),
        torch.float64: Tolerance(2**-51, 0, "as float32: 1 ulp (2**-52), margin of 2"),
    },
    version="1",
    only_on={"triton": "cuda"},
    moved_bytes=moved_bytes,
    operations=operations,
    promises=(
        "saved_new_bytes <= 0 for python, fused, cpp, triton",
        "saved_new_bytes <= ceil(rows * cols / 8) for python_mask, cpp_mask",  # one bit an element
    ),
)
