import pytest
import torch

from autofn import registry

VARIANTS = [variant.name for variant in registry.variants("clipped_relu")]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_is_one_strictly_between_the_corners(variant, load):
    x = torch.tensor([-2.0, 0.0, 0.5, 3.0, 6.0, 7.0], requires_grad=True)

    y = load("clipped_relu", variant)(x, 6.0)
    (grad,) = torch.autograd.grad(y.sum(), x)

    assert y.tolist() == [0, 0, 0.5, 3, 6, 6]
    assert grad.tolist() == [0, 0, 1, 1, 0, 0]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("variant", ["python", "fused", "cpp"])
def test_nan_stays_nan(variant, load):
    assert load("clipped_relu", variant)(torch.tensor([float("nan"), 1.0]), 6.0).isnan().tolist() == [True, False]


@pytest.mark.parametrize("variant", ["python", "fused", "cpp"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2), -1.0), r"clipped_relu: clip must be above 0, got -1"),
        ((torch.ones(2, dtype=torch.int64), 6.0), r"clipped_relu: x must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("clipped_relu", variant)(*arguments)
