"""Gradient reversal: a view of its input whose gradient is turned round."""

import pytest
import torch

VARIANTS = ["python", "cpp"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_output_is_a_view_that_nobody_may_write_into(variant, load):
    x = torch.randn(3, 4, requires_grad=True)
    y = load("gradient_reversal", variant)(x, 1.0)
    assert y.data_ptr() == x.data_ptr()
    assert y._is_view()
    with pytest.raises(RuntimeError, match=r"view .* modified inplace"):
        y.add_(1)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("strength", [0.5, 0.0, -2, 0.1])
def test_the_gradient_is_turned_round_by_the_strength(variant, strength, load):
    x = torch.randn(5, requires_grad=True)
    weights = torch.randn(5)
    (grad,) = torch.autograd.grad(load("gradient_reversal", variant)(x, strength), x, weights)
    assert torch.equal(grad, weights * -strength)


@pytest.mark.parametrize("variant", ["eager", *VARIANTS])
def test_what_lies_before_learns_the_opposite(variant, load):
    weight = torch.tensor(2.0, requires_grad=True)
    loss = (load("gradient_reversal", variant)(weight * 3, 1.0) - 10).square()
    loss.backward()
    # d loss / d weight is 2 * (6 - 10) * 3 = -24.
    assert weight.grad.item() == 24


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("shape", [(), (0, 3)], ids=str)
def test_a_number_and_no_rows_are_fine(variant, shape, load):
    x = torch.ones(shape, requires_grad=True)
    (grad,) = torch.autograd.grad(load("gradient_reversal", variant)(x, 3.0), x, torch.ones(shape))
    assert torch.equal(grad, -3 * torch.ones(shape))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_strided_input_is_viewed_as_it_is(variant, load):
    x = torch.randn(4, 6)[:, ::2].t()
    y = load("gradient_reversal", variant)(x.requires_grad_(), 1.0)
    assert (y.shape, y.stride()) == (x.shape, x.stride())
    assert torch.equal(y, x)


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_differentiable_twice_as_the_surrogate_is(variant, load):
    x = torch.tensor(2.0, requires_grad=True)
    y = load("gradient_reversal", variant)(x, 0.5) ** 3
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    # First -0.5 * 3 y^2; its derivative goes through y once more.
    assert (first.item(), second.item()) == (-6.0, 3.0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_integers_are_refused(variant, load):
    with pytest.raises(ValueError, match="gradient_reversal: x must hold floating point numbers, got "):
        load("gradient_reversal", variant)(torch.ones(3, dtype=torch.int64), 1.0)
