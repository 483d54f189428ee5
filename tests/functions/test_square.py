import pytest
import torch

from autofn import registry

VARIANTS = [variant.name for variant in registry.variants("square")]
WRITTEN = ["python", "fused", "cpp"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_the_product_with_itself_at_every_value(variant, load):
    values = [-3.0, -0.0, 0.5, 1e-30, 1e30, float("inf"), -float("inf"), float("nan")]
    x = torch.tensor(values).repeat(11).requires_grad_()

    y = load("square", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    expected = [9, 0, 0.25, 0, float("inf"), float("inf"), float("inf")]
    assert y.reshape(11, 8)[:, :7].tolist() == [expected] * 11
    assert torch.equal(grad.nan_to_num(7), (2 * x.detach()).nan_to_num(7))
    assert y.isnan().sum() == 11


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_gradient_does_not_overflow_before_it_must(variant, load):
    x = torch.tensor([1e-3]).repeat(11).requires_grad_()

    (grad,) = torch.autograd.grad(load("square", variant)(x), x, torch.full((11,), 3e38))

    torch.testing.assert_close(grad, torch.full((11,), 6e35))


def test_python_has_the_second_derivative(load):
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    found = load("square", "python")(x)
    for expected in (2 * x, torch.full_like(x, 2)):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        torch.testing.assert_close(found, expected)


def test_python_goes_with_torch_func(load):
    apply, x = load("square", "python"), torch.randn(5)

    assert torch.equal(torch.func.vmap(apply)(x), x * x)
    assert torch.equal(torch.func.vmap(torch.func.grad(apply))(x), 2 * x)


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_stays_a_scalar(variant, load):
    x = torch.tensor(3.0, requires_grad=True)

    y = load("square", variant)(x)
    (grad,) = torch.autograd.grad(y, x)

    assert (y.shape, y.item(), grad.shape, grad.item()) == ((), 9, (), 6)


@pytest.mark.parametrize("variant", WRITTEN)
def test_an_integer_input_is_named(variant, load):
    with pytest.raises(ValueError, match=r"square: x must hold floating point numbers, got "):
        load("square", variant)(torch.ones(2, dtype=torch.int64))
