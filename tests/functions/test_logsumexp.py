import math

import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("logsumexp")
MASKED = ["eager", "compile", "python", "fused", "cpp"]
WRITTEN = ["python", "fused", "cpp"]
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
def test_a_fully_masked_row_gives_minus_infinity_and_gradient_0(variant, columns, load):
    x = torch.zeros(3, columns)
    x[1] = -INF

    y, grad = gradient(load("logsumexp", variant), x, torch.tensor([1.0, 2.0, 3.0]))

    assert y[1] == -INF
    assert not grad[1].any()
    torch.testing.assert_close(y[[0, 2]], torch.full((2,), math.log(columns)))
    torch.testing.assert_close(grad[[0, 2]], torch.tensor([[1.0], [3.0]]).expand(2, columns) / columns)


def test_the_second_derivative_of_a_masked_row_is_0_not_nan(load):
    x = torch.tensor([[-INF, -INF], [0.0, 1.0]], requires_grad=True)

    y = load("logsumexp", "python")(x)
    (first,) = torch.autograd.grad(y, x, torch.tensor([1.0, 1.0]), create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)

    assert second[0].tolist() == [0, 0]
    assert second[1].all()


# Rows of 2 numbers and, repeated, of whole vectors and a rest.
@pytest.mark.parametrize("repeat", [1, 10])
@pytest.mark.parametrize("variant", ["native", *MASKED])
def test_infinity_and_nan_give_what_torch_gives(variant, repeat, load):
    rows = [[NAN, 0.0], [0.0, NAN], [NAN, -INF], [NAN, INF], [INF, NAN], [INF, 0.0], [-INF, INF], [-INF, 0.0]]
    x = torch.tensor([row * repeat for row in rows])
    grad_output = torch.ones(len(rows))

    got = gradient(load("logsumexp", variant), x, grad_output)

    want = gradient(lambda x: torch.logsumexp(x, -1), x, grad_output)
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("variant", MASKED)
def test_large_numbers_and_large_distances_do_not_overflow(variant, load):
    x = torch.tensor([[3e38, -3e38, 0.0], [-1000.0, -1000.0, -1000.0], [1000.0, 1000.0, -1000.0]])

    y, grad = gradient(load("logsumexp", variant), x, torch.ones(3))

    torch.testing.assert_close(y, torch.tensor([3e38, -1000 + math.log(3), 1000 + math.log(2)]))
    # Half an ulp of y is 3e-5; the gradients are not made from it.
    third = 1 / 3
    torch.testing.assert_close(
        grad, torch.tensor([[1.0, 0, 0], [third, third, third], [0.5, 0.5, 0]]), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0, 8), (3, 0), (1, 67)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", ["eager", "python", "cpp"])
def test_any_shape_with_a_last_dimension_is_taken(variant, dtype, shape, load):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(dtype).requires_grad_()
    grads = (torch.randn(shape[:-1], generator=generator).to(dtype),)

    got = evaluate(SPEC, load("logsumexp", variant), (x,), grads)

    assert_matches(SPEC, got, truth(SPEC, (x,), grads), dtype)


def test_rows_of_a_large_gradient_are_the_same_past_the_caches(load):
    x = torch.randn(5000, 256, generator=torch.Generator().manual_seed(0))
    apply = load("logsumexp", "cpp")

    _, grad = gradient(apply, x, x[:, 0])

    assert torch.equal(grad, torch.cat([gradient(apply, rows, rows[:, 0])[1] for rows in x.split(1000)]))


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor(1.0), r"logsumexp: x must have at least one dimension, got a scalar"),
        (torch.ones(3, 8).long(), r"logsumexp: x must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, x, message, load):
    with pytest.raises(ValueError, match=message):
        load("logsumexp", variant)(x)
