"""A backward that cannot be differentiated refuses real use, whatever the grad_output, and nothing else."""

from __future__ import annotations

import pytest
import torch

from autofn.refusal import refuse_double_backward

REFUSED = r"^product \(kernel\): double backward is not implemented"


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, power):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    @refuse_double_backward("product (kernel)")
    def backward(ctx, grad_output):
        assert not torch.is_grad_enabled(), "the kernel must run without a graph"
        x, y = ctx.saved_tensors
        return grad_output * y, grad_output * x if ctx.needs_input_grad[1] else None, None


@pytest.fixture
def x():
    return torch.tensor([2.0, 3.0], requires_grad=True)


@pytest.fixture
def y():
    return torch.tensor([5.0, 7.0], requires_grad=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradients_are_those_of_the_backward(x, y, create_graph):
    grads = torch.autograd.grad(Product.apply(x, y, 1).sum(), (x, y), create_graph=create_graph)
    assert [grad.tolist() for grad in grads] == [[5.0, 7.0], [2.0, 3.0]]


@pytest.mark.parametrize("requires_grad", [False, True], ids=["constant grad_output", "tracked grad_output"])
@pytest.mark.parametrize("which", [0, 1])
def test_each_gradient_refuses_to_be_differentiated(x, y, requires_grad, which):
    grad_output = torch.ones(2, requires_grad=requires_grad)
    grads = torch.autograd.grad(Product.apply(x, y, 1), (x, y), grad_output, create_graph=True)
    with pytest.raises(NotImplementedError, match=REFUSED):
        torch.autograd.grad(grads[which].square().sum(), (x, y), allow_unused=True)


def test_a_gradient_penalty_raises_rather_than_counts_as_zero(x, y):
    (grad,) = torch.autograd.grad(Product.apply(x, y, 1).sum(), x, create_graph=True)
    loss = Product.apply(x, y, 1).sum() + grad.square().sum()
    with pytest.raises(NotImplementedError, match=REFUSED):
        loss.backward()


# torch warns of a reference cycle, which the last line breaks.
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True:UserWarning")
def test_a_harmless_create_graph_is_let_through(x, y):
    Product.apply(x, y, 1).sum().backward(create_graph=True)
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = y.grad = None


def test_a_gradient_that_is_not_wanted_stays_none(x):
    grads = torch.autograd.grad(Product.apply(x, torch.ones(2), 1).sum(), (x,), create_graph=True)
    assert grads[0].tolist() == [1.0, 1.0]
    with pytest.raises(NotImplementedError, match=REFUSED):
        torch.autograd.grad(grads[0].sum(), x)


def test_a_backward_that_returns_one_tensor_is_refused_too(x):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @refuse_double_backward("square (kernel)")
        def backward(ctx, grad_output):
            return 2 * ctx.saved_tensors[0] * grad_output

    (grad,) = torch.autograd.grad(Square.apply(x).sum(), x, create_graph=True)
    assert grad.tolist() == [4.0, 6.0]
    with pytest.raises(NotImplementedError, match=r"square \(kernel\)"):
        torch.autograd.grad(grad.sum(), x)


def test_where_nothing_could_be_differentiated_nothing_is_refused(x):
    class Shift(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1

        @staticmethod
        @refuse_double_backward("shift (kernel)")
        def backward(ctx, grad_output):
            return grad_output.clone()

    (grad,) = torch.autograd.grad(Shift.apply(x).sum(), x, create_graph=True)
    assert not grad.requires_grad
