"""The hyperbolic sine: every derivative of `python`, and the precision of all variants."""

from __future__ import annotations

import math

import pytest
import torch

from autofn import registry

VARIANTS = [variant.name for variant in registry.variants("sinh")]
WRITTEN = ["python", "fused", "cpp"]

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


def test_python_is_differentiable_four_times(load):
    x = torch.tensor([-2.0, 0.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    found = load("sinh", "python")(x)
    for order in range(1, 5):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        torch.testing.assert_close(found, (torch.sinh if order % 2 == 0 else torch.cosh)(x))


def test_python_goes_with_torch_func(load):
    apply, x = load("sinh", "python"), torch.randn(5, dtype=torch.float64)
    second = torch.func.vmap(torch.func.grad(torch.func.grad(apply)))

    torch.testing.assert_close(torch.func.vmap(apply)(x), torch.sinh(x))
    torch.testing.assert_close(second(x), torch.sinh(x))


@pytest.mark.parametrize("variant", ["native", "cpp"])
@pytest.mark.parametrize(("dtype", "ulp"), [(torch.float32, 2**-23), (torch.float64, 2**-52), (torch.bfloat16, 2**-8)])
def test_no_digits_are_lost_near_zero(variant, dtype, ulp, load):
    # Across 1, where the kernel changes its formula, and down to where y is x.
    x = torch.cat([10.0 ** torch.arange(-30, 0), torch.linspace(0.9, 1.1, 101)]).to(dtype)
    x = torch.cat([x, -x])

    y = load("sinh", variant)(x)

    torch.testing.assert_close(y.double(), torch.sinh(x.double()), rtol=2 * ulp, atol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_far_from_zero_it_is_half_an_exponential(variant, load):
    x = torch.tensor([-88.5, -20.0, 20.0, 88.5, -100.0, 100.0]).repeat(7).requires_grad_()

    y = load("sinh", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    exact = x.detach().double().abs().exp() / 2
    exact = torch.where(exact > 3.4e38, torch.inf, exact)
    # An ulp of the exponential is one of its argument, which in float32 is 2**-17 at 88.
    torch.testing.assert_close(y.double(), exact.copysign(x.double()), rtol=2**-17, atol=0)
    torch.testing.assert_close(grad.double(), exact, rtol=2**-17, atol=0)


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_gradient_is_finite_where_the_output_is(variant, load):
    # Beyond 45.1 the square of y overflows in float32.
    x = torch.tensor([45.0, 46.0, -60.0, 88.0]).requires_grad_()

    y = load("sinh", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    torch.testing.assert_close(grad, y.abs(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("variant", WRITTEN)
def test_nan_infinity_and_the_sign_of_zero_are_kept(variant, load):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0]).repeat(11).requires_grad_()

    y = load("sinh", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    assert y[:4].isnan().tolist() == grad[:4].isnan().tolist() == [True, False, False, False]
    assert y[1:4].tolist() == [float("inf"), -float("inf"), 0]
    assert grad[1:4].tolist() == [float("inf"), float("inf"), 1]


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_stays_a_scalar(variant, load):
    x = torch.tensor(0.5, requires_grad=True)

    y = load("sinh", variant)(x)
    (grad,) = torch.autograd.grad(y, x)

    assert y.shape == grad.shape == ()
    assert (y.item(), grad.item()) == pytest.approx((math.sinh(0.5), math.cosh(0.5)))


@pytest.mark.parametrize("variant", WRITTEN)
def test_an_integer_input_is_named(variant, load):
    with pytest.raises(ValueError, match=r"sinh: x must hold floating point numbers, got "):
        load("sinh", variant)(torch.ones(2, dtype=torch.int64))
