"""Sorting by NumPy as a torch.autograd.Function; the backward is made of PyTorch operations."""

import numpy
import torch

from .inputs import check, index_dtype


class NumpySort(torch.autograd.Function):
    """`(values, permutation)`."""

    @staticmethod
    def forward(x, dim):
        check(x, dim)
        array = x.float().numpy() if x.dtype == torch.bfloat16 else x.numpy()
        order = numpy.argsort(array, axis=dim, kind="stable")
        values = torch.from_numpy(numpy.take_along_axis(array, order, dim)).to(x.dtype)
        return values, torch.from_numpy(order).to(index_dtype(x.shape[dim]))

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim = inputs
        _, permutation = output
        ctx.mark_non_differentiable(permutation)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(permutation)

    @staticmethod
    def backward(ctx, grad_output, _):
        if grad_output is None:
            return None, None
        (permutation,) = ctx.saved_tensors
        return torch.zeros_like(grad_output).scatter(ctx.dim, permutation.long(), grad_output), None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        # The batch comes first, and a dimension counted from the front moves by one.
        x = x.movedim(in_dims[0], 0)
        return NumpySort.apply(x, dim if dim < 0 else dim + 1), (0, 0)


def apply(x, dim=-1):
    return NumpySort.apply(x, dim)[0]
