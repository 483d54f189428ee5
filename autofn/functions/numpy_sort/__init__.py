"""Sorting by NumPy, `y = sort(x)` along a dimension, a routine that autograd cannot see into.

x and y have one shape of at least one dimension, `dim` is one of them. The order is numpy.argsort's, which is that of
torch.sort: ascending, NaN last, and stable: of equal elements the earlier one comes first, and gets the gradient that
belongs to its place. With p the permutation, y[i] = x[p[i]], the vjp of grad_output puts back what was taken,
    grad_x[p[i]] = grad_output[i]
Source: "Extending torch.func with autograd.Function" of PyTorch's notes, NumpySort.

The Function has two outputs, y and p, of which p is marked as not differentiable; `apply` returns y.

Saved: p, in the smallest integer type that counts the elements along dim: uint8 up to 256 of them, uint16 up to 65,536,
int32, then int64; y would not tell it. NumPy sorts into, and PyTorch scatters by, 8 bytes an element, for the time of
the pass.
Freed: with the graph, when the backward has run. The gradient is linear in grad_output and made of PyTorch operations:
differentiable any number of times. It has a vmap rule: the batch is one dimension more.

Both passes run on the CPU alone, and refuse other devices; bfloat16, which NumPy lacks, is sorted as float32.
"""

from __future__ import annotations

from typing import Any

import torch

from autofn import Spec, Tolerance, Workload
from autofn.spec import of_phase

from .inputs import index_dtype
from .reference import numpy_sort


def make_inputs(rows: int, cols: int, dim: int, *, dtype: torch.dtype, device: str, seed: int = 0) -> tuple[Any, ...]:
    """x of shape (rows, cols), standard normal; in bfloat16 there are equal elements among them."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, cols, generator=generator).to(device, dtype).requires_grad_(), dim


def length(workload: Workload) -> int:
    """How many elements are sorted together."""
    return (workload["rows"], workload["cols"])[workload["dim"]]


def moved_bytes(phase: str, workload: Workload, itemsize: int) -> int:
    """Forward: x, y. Backward: grad_output, an index an element, which is all that it must know of x, and grad_x."""
    elements = workload["rows"] * workload["cols"]
    index = index_dtype(length(workload)).itemsize
    return of_phase(phase, forward=2 * elements * itemsize, backward=elements * (2 * itemsize + index))


EXACT = "no arithmetic: every element is copied to another place"

SPEC = Spec(
    name="numpy_sort",
    reference=numpy_sort,
    make_inputs=make_inputs,
    workloads={
        "tiny": {"rows": 5, "cols": 7, "dim": 1},
        "small": {"rows": 128, "cols": 512, "dim": 1},
        "large": {"rows": 4096, "cols": 1024, "dim": 1},
    },
    tolerances={dtype: Tolerance(0, 0, EXACT) for dtype in (torch.float32, torch.bfloat16, torch.float64)},
    version="1",
    without={
        "native": "the reference is already PyTorch's operator",
        "fused": "NumPy cannot be compiled into a graph, and torch.sort compiled is the variant compile",
        "cpp": "it is there to show a routine that is not PyTorch's; a sort in C++ would be another Function",
    },
    moved_bytes=moved_bytes,
    promises=(  # the permutation, in the smallest integers that count a row
        "saved_new_bytes <= rows * cols at tiny",
        "saved_new_bytes <= 2 * rows * cols at small, large",
    ),
)
