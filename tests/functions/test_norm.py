import math

import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("norm")
SCALED = ["eager", "compile", "python", "fused", "cpp"]
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
    ("variant", "columns"), [*((variant, 20) for variant in ["native", *SCALED]), ("python", 1), ("cpp", 1), ("cpp", 3)]
)
def test_a_row_of_0_has_norm_and_gradient_0(variant, columns, load):
    x = torch.ones(3, columns)
    x[1] = 0

    y, grad = gradient(load("norm", variant), x, torch.tensor([1.0, 2.0, 3.0]))

    torch.testing.assert_close(y, torch.tensor([1.0, 0, 1]) * math.sqrt(columns))
    torch.testing.assert_close(grad, torch.tensor([[1.0], [0], [3]]).expand(3, columns) / math.sqrt(columns))
    assert not grad[1].any()


def test_the_second_derivative_of_a_row_of_0_is_0(load):
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)

    y = load("norm", "python")(x)
    (first,) = torch.autograd.grad(y, x, torch.ones(2), create_graph=True)
    (second,) = torch.autograd.grad(first, x, torch.tensor([[1.0, 2.0], [4.0, -3.0]]))

    # The Hessian at (3, 4) is 1/5 across the row, 0 along it.
    torch.testing.assert_close(second, torch.tensor([[0.0, 0.0], [0.8, -0.6]]))


# Squares below 1.2e-38 lose digits and those above 3.4e38 are inf; 1e-40 and 1e-44 are denormal themselves.
@pytest.mark.parametrize("repeat", [1, 10])
@pytest.mark.parametrize("variant", SCALED)
def test_no_square_overflows_or_underflows(variant, repeat, load):
    sizes = torch.tensor([[1e37], [1e30], [1e19], [1.0], [1e-15], [1e-19], [1e-22], [1e-30], [1e-40]])
    x = sizes * torch.tensor([3.0, -4.0] * repeat)
    y, grad = gradient(load("norm", variant), x, torch.ones(len(sizes)))

    want = gradient(lambda x: torch.linalg.vector_norm(x, dim=-1), x.double(), torch.ones(len(sizes)).double())
    # A number of 1e-40 has 17 bits.
    torch.testing.assert_close(y[:-1].double(), want[0][:-1], rtol=1e-6, atol=0)
    torch.testing.assert_close(grad[:-1].double(), want[1][:-1], rtol=1e-6, atol=0)
    torch.testing.assert_close(y[-1].double(), want[0][-1], rtol=2e-5, atol=0)
    torch.testing.assert_close(grad[-1].double(), want[1][-1], rtol=2e-5, atol=0)


@pytest.mark.parametrize("variant", ["python", "cpp"])
def test_squares_of_float64_neither_overflow_nor_underflow(variant, load):
    x = torch.tensor([[3e300, -4e300], [3e-300, 4e-300]], dtype=torch.float64)

    y, grad = gradient(load("norm", variant), x, torch.ones(2, dtype=torch.float64))

    torch.testing.assert_close(y, torch.tensor([5e300, 5e-300], dtype=torch.float64), rtol=1e-15, atol=0)
    torch.testing.assert_close(grad, torch.tensor([[0.6, -0.8], [0.6, 0.8]], dtype=torch.float64))


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_norm_that_overflows_is_inf_with_gradient_0(variant, load):
    y, grad = gradient(load("norm", variant), torch.full((1, 4), 3e38), torch.ones(1))

    assert y.tolist() == [INF]
    assert grad.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("repeat", [1, 10])
@pytest.mark.parametrize("variant", ["native", *SCALED])
def test_infinity_and_nan_give_what_torch_gives(variant, repeat, load):
    rows = [[NAN, 0.0], [0.0, NAN], [NAN, INF], [-INF, NAN], [INF, 0.0], [1.0, -INF]]
    x = torch.tensor([row * repeat for row in rows])
    grad_output = torch.ones(len(rows))

    got = gradient(load("norm", variant), x, grad_output)

    want = gradient(lambda x: torch.linalg.vector_norm(x, dim=-1), x, grad_output)
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0, 8), (3, 0), (1, 67)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", ["eager", "python", "cpp"])
def test_any_shape_with_a_last_dimension_is_taken(variant, dtype, shape, load):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(dtype).requires_grad_()
    grads = (torch.randn(shape[:-1], generator=generator).to(dtype),)

    got = evaluate(SPEC, load("norm", variant), (x,), grads)

    assert_matches(SPEC, got, truth(SPEC, (x,), grads), dtype)


def test_rows_of_a_large_gradient_are_the_same_past_the_caches(load):
    x = torch.randn(5000, 256, generator=torch.Generator().manual_seed(0))
    apply = load("norm", "cpp")

    _, grad = gradient(apply, x, x[:, 0])

    assert torch.equal(grad, torch.cat([gradient(apply, rows, rows[:, 0])[1] for rows in x.split(1000)]))


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor(1.0), r"norm: x must have at least one dimension, got a scalar"),
        (torch.ones(3, 8).long(), r"norm: x must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, x, message, load):
    with pytest.raises(ValueError, match=message):
        load("norm", variant)(x)
