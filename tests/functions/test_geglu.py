import math

import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("geglu")
VARIANTS = [variant.name for variant in registry.variants("geglu")]
WRITTEN = ["python", "fused", "cpp", "triton"]

both = pytest.mark.parametrize("approximate", ["none", "tanh"])


def inputs(shape, dtype=torch.float32, scale=1.0):
    generator = torch.Generator().manual_seed(0)
    gate, up = (torch.randn(shape, generator=generator) for _ in range(2))
    return (gate * scale).to(dtype).requires_grad_(), up.to(dtype).requires_grad_()


def assert_right(variant, pair, approximate, load):
    arguments = (*pair, approximate)
    grads = (torch.randn(pair[0].shape, generator=torch.Generator().manual_seed(1)).to(pair[0]),)

    got = evaluate(SPEC, load("geglu", variant), arguments, grads)

    assert_matches(SPEC, got, truth(SPEC, arguments, grads), pair[0].dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant not in ("compile", "fused")])
def test_the_approximation_matches_the_float64_reference(variant, dtype, load):
    assert_right(variant, inputs((5, 7), dtype, scale=3.0), "tanh", load)


@both
@pytest.mark.parametrize("shape", [(), (2, 0, 5), (2, 3, 171)], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_any_shape_will_do(variant, shape, approximate, load):
    assert_right(variant, inputs(shape), approximate, load)


@both
def test_the_python_variant_is_differentiable_twice(approximate, load):
    apply = load("geglu", "python")
    pair = inputs((2, 3), torch.float64)
    assert torch.autograd.gradcheck(apply, (*pair, approximate))
    assert torch.autograd.gradgradcheck(apply, (*pair, approximate))


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_far_from_zero_the_gate_is_open_or_shut(variant, dtype, approximate, load):
    largest = torch.finfo(dtype).max
    gate = torch.tensor([-math.inf, -largest, -1e4, 1e4, largest, math.inf], dtype=dtype, requires_grad=True)
    up = torch.full((6,), 0.5, dtype=dtype, requires_grad=True)

    y = load("geglu", variant)(gate, up, approximate)
    grad_gate, grad_up = torch.autograd.grad(y.sum(), (gate, up))

    assert y.tolist() == [0, 0, 0, 5e3, 0.5 * largest, math.inf]
    assert grad_gate.tolist() == [0, 0, 0, 0.5, 0.5, 0.5]
    assert grad_up.tolist() == [0, 0, 0, 1e4, largest, math.inf]


@both
@pytest.mark.parametrize("variant", WRITTEN)
def test_nan_stays_nan(variant, approximate, load):
    gate, up = torch.tensor([math.nan, 1.0], requires_grad=True), torch.ones(2)

    y = load("geglu", variant)(gate, up, approximate)
    (grad,) = torch.autograd.grad(y.sum(), gate)

    assert y.isnan().tolist() == grad.isnan().tolist() == [True, False]


# Exactly, fused and triton take erf, which has no such tail.
@pytest.mark.parametrize(
    ("variant", "approximate"),
    [*((variant, "none") for variant in ("python", "cpp")), *((name, "tanh") for name in ("python", "fused", "cpp"))],
)
def test_the_tail_below_zero_keeps_its_digits(variant, approximate, load):
    gate = torch.linspace(-9, -2, 701, requires_grad=True)
    x = gate.detach().double().requires_grad_()
    if approximate == "none":
        p = 0.5 * torch.special.erfc(-x / math.sqrt(2))
    else:
        p = torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))

    y = load("geglu", variant)(gate, torch.ones_like(gate), approximate)
    (grad,) = torch.autograd.grad(y.sum(), gate)
    (exact,) = torch.autograd.grad((x * p).sum(), x)

    # The argument of the exponential is 80 or so, rounded to half an ulp of 4e-6, a few times. As 1 plus erf all would
    # be lost: there y is 0 from -5.5 on.
    torch.testing.assert_close(y.double(), x * p, rtol=3e-5, atol=0)
    torch.testing.assert_close(grad.double(), exact, rtol=3e-5, atol=0)


@pytest.mark.parametrize("variant", ["python", "cpp"])
def test_half_types_are_rounded_once(variant, load):
    arguments, grads = (*inputs(1000, torch.bfloat16), "none"), (torch.ones(1000, dtype=torch.bfloat16),)

    got = evaluate(SPEC, load("geglu", variant), arguments, grads)
    want = truth(SPEC, arguments, grads)

    # Half an ulp, and what float32 adds; eager rounds twice.
    for found, exact in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=2**-8 * 1.001, atol=1e-7)


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.ones(2, 3), torch.ones(3, 2), "none"),
            r"geglu: shapes must be equal, got gate \[2, 3\] and up \[3, 2\]",
        ),
        ((torch.ones(3), torch.ones(3).double(), "none"), r"geglu: dtypes must be equal, got gate .* and up "),
        ((torch.ones(3).long(), torch.ones(3), "tanh"), r"geglu: gate must hold floating point numbers, got "),
        (
            (torch.ones(3), torch.ones(3, device="meta"), "none"),
            r"geglu: devices must be equal, got gate cpu and up meta",
        ),
        ((torch.ones(3), torch.ones(3), "erf"), r"geglu: approximate must be 'none' or 'tanh', got 'erf'"),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("geglu", variant)(*arguments)
