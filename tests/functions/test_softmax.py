import math

import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("softmax")
MASKED = ["eager", "compile", "python", "fused", "cpp", "triton"]
WRITTEN = ["python", "fused", "cpp", "triton"]
INF, NAN = math.inf, math.nan

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


def gradient(apply, x, grad_output):
    x = x.clone().requires_grad_()
    y = apply(x)
    (grad,) = torch.autograd.grad(y, x, grad_output)
    return y.detach(), grad


# 20 columns: whole vectors and a rest.
@pytest.mark.parametrize(
    ("variant", "columns"), [*((variant, 20) for variant in MASKED), ("python", 1), ("cpp", 1), ("cpp", 3)]
)
def test_a_fully_masked_row_has_output_and_gradient_0(variant, columns, load):
    x = torch.zeros(3, columns)
    x[1] = -INF

    y, grad = gradient(load("softmax", variant), x, torch.arange(3.0 * columns).view(3, columns))

    assert y[1].tolist() == grad[1].tolist() == [0] * columns
    assert torch.equal(y[[0, 2]], torch.full((2, columns), 1 / columns))


def test_the_second_derivative_of_a_masked_row_is_0_not_nan(load):
    x = torch.tensor([[-INF, -INF], [0.0, 1.0]], requires_grad=True)

    y = load("softmax", "python")(x)
    (first,) = torch.autograd.grad(y, x, torch.tensor([[1.0, 2.0], [1.0, 2.0]]), create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)

    assert second[0].tolist() == [0, 0]
    assert second[1].all()


@pytest.mark.parametrize("variant", MASKED)
def test_a_masked_element_has_output_and_gradient_0(variant, load):
    y, grad = gradient(load("softmax", variant), torch.tensor([0.0, -INF, 0.0]), torch.tensor([1.0, 5.0, 3.0]))

    assert y.tolist() == [0.5, 0, 0.5]
    assert grad.tolist() == [-0.5, 0, 0.5]


@pytest.mark.parametrize("repeat", [1, 10])
@pytest.mark.parametrize("variant", ["eager", "native", *WRITTEN])
def test_a_row_with_nan_or_infinity_is_nan_as_in_torch(variant, repeat, load):
    rows = [[NAN, 0.0], [0.0, NAN], [NAN, -INF], [-INF, NAN], [NAN, NAN], [INF, 0.0], [-INF, INF], [1.0, 2.0]]
    x = torch.tensor([row * repeat for row in rows])

    y = load("softmax", variant)(x)

    assert y.isnan().all(-1).tolist() == [True] * 7 + [False]
    assert y.isnan().any(-1).tolist() == [True] * 7 + [False]


@pytest.mark.parametrize("variant", MASKED)
def test_large_numbers_and_large_distances_do_not_overflow(variant, load):
    y, grad = gradient(load("softmax", variant), torch.tensor([3e38, -3e38, 3e38, 0.0]), torch.tensor([1.0, 1, 3, 1]))

    assert y.tolist() == [0.5, 0, 0.5, 0]
    assert grad.tolist() == [-0.5, 0, 0.5, 0]


# The last two keep no exponentials: float32 keeps 16,384, float64 8,192.
@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0, 8), (3, 0), (1, 67), (2, 16384), (2, 16391)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", ["eager", "python", "cpp", "triton"])
def test_any_shape_with_a_last_dimension_is_taken(variant, dtype, shape, load):
    generator = torch.Generator().manual_seed(0)
    x, grad_output = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    inputs, grads = (x.requires_grad_(),), (grad_output,)

    got = evaluate(SPEC, load("softmax", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), dtype)


@pytest.mark.parametrize("columns", [256, 255])
def test_rows_of_a_large_output_are_the_same_past_the_caches(columns, load):
    x = torch.randn(5000, columns, generator=torch.Generator().manual_seed(0))
    apply = load("softmax", "cpp")

    y, grad = gradient(apply, x, x)

    few = [gradient(apply, rows, rows) for rows in x.split(1000)]
    assert torch.equal(y, torch.cat([y for y, _ in few]))
    assert torch.equal(grad, torch.cat([grad for _, grad in few]))


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-6), (torch.float64, 1e-15)])
def test_the_kernels_exponential_holds_down_to_the_smallest_normal_float32(dtype, rtol, load):
    x = torch.linspace(-87.3, 0, 4001, dtype=dtype)
    rows = torch.stack([torch.zeros_like(x), x], -1)

    y = load("softmax", "cpp")(rows)

    torch.testing.assert_close(y.double(), torch.softmax(rows.double(), -1), rtol=rtol, atol=0)


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor(1.0), r"softmax: x must have at least one dimension, got a scalar"),
        (torch.ones(3, 8).long(), r"softmax: x must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, x, message, load):
    with pytest.raises(ValueError, match=message):
        load("softmax", variant)(x)
