import pytest
import torch

from autofn import registry

VARIANTS = [variant.name for variant in registry.variants("relu")]
WRITTEN = ["python", "fused", "cpp"]

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradient_is_one_strictly_above_zero(variant, load):
    # Nine vectors and a rest, so that both paths of the kernel see every value.
    x = torch.tensor([-2.0, -0.0, 0.0, 1e-40, 3.0, float("inf"), -float("inf")]).repeat(11).requires_grad_()

    y = load("relu", variant)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)

    assert y.tolist() == [0, 0, 0, x[3].item(), 3, float("inf"), 0] * 11
    assert grad.tolist() == [0, 0, 0, 1, 1, 1, 0] * 11


@pytest.mark.parametrize("variant", VARIANTS)
def test_nan_stays_nan_and_lets_the_gradient_through(variant, load):
    x = torch.tensor([float("nan"), -1.0]).repeat(11).requires_grad_()

    y = load("relu", variant)(x)
    (grad,) = torch.autograd.grad(y, x, torch.full_like(y, 5))

    assert y.isnan().tolist() == [True, False] * 11
    assert grad.tolist() == [5, 0] * 11


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_gradient_that_is_not_finite_is_blocked_below_zero(variant, load):
    x = torch.tensor([-1.0, 1.0]).repeat(11).requires_grad_()
    grad_output = torch.tensor([float("nan"), float("inf")]).repeat(11)

    (grad,) = torch.autograd.grad(load("relu", variant)(x), x, grad_output)

    assert grad.tolist() == [0, float("inf")] * 11


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_output_may_not_be_changed_before_the_backward(variant, load):
    y = load("relu", variant)(torch.ones(3, requires_grad=True))

    y.mul_(2)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_input_may_be_changed_before_the_backward(variant, load):
    leaf = torch.ones(3, requires_grad=True)
    x = leaf.clone()
    y = load("relu", variant)(x)

    x.mul_(-1)
    y.sum().backward()

    assert leaf.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_scalar_stays_a_scalar(variant, load):
    x = torch.tensor(2.0, requires_grad=True)

    y = load("relu", variant)(x)
    (grad,) = torch.autograd.grad(y, x)

    assert (y.shape, y.item(), grad.shape, grad.item()) == ((), 2, (), 1)


@pytest.mark.parametrize("variant", WRITTEN)
def test_an_integer_input_is_named(variant, load):
    with pytest.raises(ValueError, match=r"relu: x must hold floating point numbers, got "):
        load("relu", variant)(torch.ones(2, dtype=torch.int64))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_output_written_past_the_caches_is_the_same(dtype, threads, load):
    # 8 MiB and 5 lanes: the last vector is not full.
    x = torch.randn(2**23 // dtype.itemsize + 5, dtype=dtype, requires_grad=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        y = load("relu", "cpp")(x)
        (grad,) = torch.autograd.grad(y, x, x.detach())
    finally:
        torch.set_num_threads(before)

    assert torch.equal(y, torch.relu(x))
    assert torch.equal(grad, torch.relu(x))
