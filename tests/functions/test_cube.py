import pytest
import torch

from autofn import registry

VARIANTS = [variant.name for variant in registry.variants("cube")]
WRITTEN = ["python", "fused", "cpp"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_the_third_power_at_every_value(variant, load):
    values = [-3.0, -0.0, 0.5, 1e20, float("inf"), -float("inf"), float("nan")]
    x = torch.tensor(values).repeat(11).requires_grad_()

    y = load("cube", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    inf = float("inf")
    assert y.reshape(11, 7)[:, :6].tolist() == [[-27, 0, 0.125, inf, inf, -inf]] * 11
    assert grad.reshape(11, 7)[:, :6].tolist() == [[27, 0, 0.75, inf, inf, inf]] * 11
    assert y.isnan().sum() == grad.isnan().sum() == 11


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(("x", "grad_output"), [(1e-25, 1e30), (1e-3, 3e38), (1e18, 1e-30), (1e-20, 1)])
def test_the_gradient_leaves_the_range_of_numbers_no_sooner_than_it_must(variant, x, grad_output, load):
    leaf = torch.tensor([x]).repeat(11).requires_grad_()

    (grad,) = torch.autograd.grad(load("cube", variant)(leaf), leaf, torch.full((11,), grad_output))

    torch.testing.assert_close(grad.double(), torch.full((11,), 3 * grad_output * x * x).double(), rtol=1e-5, atol=0)


def test_python_has_the_third_derivative(load):
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    found = load("cube", "python")(x)
    for expected in (3 * x**2, 6 * x, torch.full_like(x, 6)):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        torch.testing.assert_close(found, expected)


def test_python_goes_with_torch_func(load):
    apply, x = load("cube", "python"), torch.randn(5)

    torch.testing.assert_close(torch.func.vmap(apply)(x), x**3)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(torch.func.grad(apply)))(x), 6 * x)


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_stays_a_scalar(variant, load):
    x = torch.tensor(2.0, requires_grad=True)

    y = load("cube", variant)(x)
    (grad,) = torch.autograd.grad(y, x)

    assert (y.shape, y.item(), grad.shape, grad.item()) == ((), 8, (), 12)


@pytest.mark.parametrize("variant", WRITTEN)
def test_an_integer_input_is_named(variant, load):
    with pytest.raises(ValueError, match=r"cube: x must hold floating point numbers, got "):
        load("cube", variant)(torch.ones(2, dtype=torch.int64))
