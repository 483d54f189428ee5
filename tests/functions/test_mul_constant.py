"""The product with a constant: nothing is saved, and only a separate setup_context goes with torch.func."""

import pytest
import torch

from autofn import registry

WRITTEN = ["python", "python_combined", "fused", "cpp"]
# float32 cannot hold 0.1, and the product is that of the number that was given.
CONSTANTS = [2.5, 0.1, 0.0, -3, float("inf")]


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_output_and_gradient_are_the_product_for_any_number(variant, constant, load):
    x = torch.tensor([1.0, -2.0, 0.0, float("nan"), float("inf")], requires_grad=True)
    y = load("mul_constant", variant)(x, constant)
    (grad,) = torch.autograd.grad(y, x, x.detach())
    assert torch.equal(y.nan_to_num(7), (x * constant).nan_to_num(7))
    assert torch.equal(grad.nan_to_num(7), (x * constant).nan_to_num(7))


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 0)], ids=str)
def test_a_number_and_no_rows_are_fine(variant, shape, load):
    x = torch.ones(shape, requires_grad=True)
    y = load("mul_constant", variant)(x, 3.0)
    (grad,) = torch.autograd.grad(y, x, torch.ones(shape))
    assert torch.equal(y, 3 * torch.ones(shape))
    assert torch.equal(grad, 3 * torch.ones(shape))


@pytest.mark.parametrize("variant", WRITTEN)
def test_no_tensor_is_saved(variant, load):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("mul_constant", variant)(torch.ones(3, requires_grad=True), 2.0)
    assert saved == []


@pytest.mark.parametrize("variant", ["python", "python_combined", "fused", "cpp"])
def test_it_is_differentiable_any_number_of_times(variant, load):
    apply = load("mul_constant", variant)
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        (grad,) = torch.autograd.grad(apply(x, 2.5).sin().sum(), x, create_graph=True)
        assert grad.requires_grad
    assert torch.autograd.gradgradcheck(lambda t: apply(t, 2.5).sin(), x)


def test_only_a_separate_setup_context_goes_with_torch_func(load):
    x = torch.randn(4)
    assert torch.equal(
        torch.func.grad(lambda t: load("mul_constant", "python")(t, 2.5).sum())(x), torch.full((4,), 2.5)
    )
    assert torch.equal(torch.func.vmap(lambda t: load("mul_constant", "python")(t, 2.5))(x), 2.5 * x)
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.grad(lambda t: load("mul_constant", "python_combined")(t, 2.5).sum())(x)


@pytest.mark.parametrize("variant", WRITTEN)
def test_integers_are_refused(variant, load):
    with pytest.raises(ValueError, match="mul_constant: x must hold floating point numbers, got "):
        load("mul_constant", variant)(torch.ones(3, dtype=torch.int64), 2.0)


def test_there_are_two_plain_python_variants():
    names = [found.name for found in registry.variants("mul_constant") if found.kind == "python"]
    assert names == ["python", "python_combined"]
