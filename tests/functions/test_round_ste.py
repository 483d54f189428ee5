import pytest
import torch

from autofn import registry
from autofn.functions.round_ste.reference import round_ste

VARIANTS = [variant.name for variant in registry.variants("round_ste")]
WRITTEN = ["python", "fused", "cpp"]
INF, NAN = float("inf"), float("nan")


def every_number(dtype):
    """All finite numbers of a half type."""
    numbers = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    return numbers[numbers.isfinite()]


@pytest.mark.parametrize("variant", VARIANTS)
def test_halves_go_to_the_even_number_and_the_gradient_is_grad_output(variant, load):
    x = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388607.5], requires_grad=True)
    grad_output = torch.randn(8, generator=torch.Generator().manual_seed(0))

    y = load("round_ste", variant)(x)
    (grad,) = torch.autograd.grad(y, x, grad_output)

    assert y.tolist() == [-2, -2, 0, 0, 2, 2, 0, 8388608]
    assert torch.equal(grad, grad_output)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_usual_formula_is_exact_for_every_finite_number(dtype):
    x = every_number(dtype)
    assert torch.equal(round_ste(x), x.round())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_kernel_rounds_every_half_precision_number_as_pytorch_does(dtype, load):
    x = every_number(dtype)
    assert torch.equal(load("round_ste", "cpp")(x), x.round())


@pytest.mark.parametrize("variant", WRITTEN)
def test_infinities_stay_and_nan_stays(variant, load):
    y = load("round_ste", variant)(torch.tensor([INF, -INF, NAN]))
    assert y[:2].tolist() == [INF, -INF]
    assert y[2].isnan()


@pytest.mark.parametrize("variant", WRITTEN)
def test_nothing_is_saved_and_the_backward_makes_no_tensor(variant, load):
    x, grad_output, saved = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = load("round_ste", variant)(x)

    (grad,) = torch.autograd.grad(y, x, grad_output)

    assert not saved
    assert grad.data_ptr() == grad_output.data_ptr()


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_parameter_accumulates_into_memory_of_its_own(variant, load):
    x, grad_output = torch.randn(4, requires_grad=True), torch.ones(4)
    for _ in range(2):
        load("round_ste", variant)(x).backward(grad_output)

    assert x.grad.tolist() == [2, 2, 2, 2]
    assert grad_output.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_gradient_can_be_differentiated_again(variant, load):
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    grad_output = torch.randn(4, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(load("round_ste", variant)(x), x, grad_output, create_graph=True)

    in_x, in_grad_output = torch.autograd.grad(grad.square().sum(), (x, grad_output), allow_unused=True)

    assert in_x is None
    assert torch.equal(in_grad_output, 2 * grad_output)


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_tensor_is_rounded(variant, load):
    x = torch.tensor(2.7, requires_grad=True)
    y = load("round_ste", variant)(x)
    assert (y.shape, y.item()) == ((), 3)
    assert torch.autograd.grad(y, x)[0].item() == 1


@pytest.mark.parametrize("variant", WRITTEN)
def test_integers_are_refused(variant, load):
    with pytest.raises(ValueError, match=r"round_ste: x must hold floating point numbers, got "):
        load("round_ste", variant)(torch.ones(2, dtype=torch.int64))
