import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("swiglu")
VARIANTS = [variant.name for variant in registry.variants("swiglu")]
WRITTEN = ["python", "fused", "cpp", "triton"]


def inputs(shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(shape, generator=generator).to(dtype).requires_grad_() for _ in range(2))


@pytest.mark.parametrize("variant", VARIANTS)
def test_far_from_zero_the_gate_is_open_or_shut(variant, load):
    gate = torch.tensor([-3e38, -1e4, 0.0, 1e4, 3e38], requires_grad=True)
    up = torch.full((5,), 0.5, requires_grad=True)

    y = load("swiglu", variant)(gate, up)
    grad_gate, grad_up = torch.autograd.grad(y.sum(), (gate, up))

    assert torch.equal(y, torch.tensor([0, 0, 0, 5e3, 1.5e38]))
    assert torch.equal(grad_gate, torch.tensor([0, 0, 0.25, 0.5, 0.5]))
    assert torch.equal(grad_up, torch.tensor([0, 0, 0, 1e4, 3e38]))


# Not triton: its interpreter cuts bfloat16 off where a GPU rounds.
@pytest.mark.parametrize("variant", ["python", "cpp"])
def test_half_types_are_rounded_once(variant, load):
    gate, up = inputs(1000, torch.bfloat16)
    grad_outputs = (torch.ones(1000, dtype=torch.bfloat16),)

    got = evaluate(SPEC, load("swiglu", variant), (gate, up), grad_outputs)
    want = truth(SPEC, (gate, up), grad_outputs)

    # Half an ulp, and what float32 adds; eager rounds twice.
    for found, exact in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=2**-8 * 1.001, atol=1e-7)


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 5), (2, 3, 171)], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_any_shape_will_do(variant, shape, load):
    pair, grads = inputs(shape), (torch.ones(shape),)

    got = evaluate(SPEC, load("swiglu", variant), pair, grads)

    assert_matches(SPEC, got, truth(SPEC, pair, grads), torch.float32)


@pytest.mark.parametrize("variant", WRITTEN)
def test_up_is_saved_only_where_the_gate_needs_it(variant, load):
    gate, up = inputs((3, 5))
    for frozen, expected in ((None, {gate.data_ptr(), up.data_ptr()}), (gate, {gate.data_ptr()})):
        if frozen is not None:
            frozen.requires_grad_(False)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.append(t) or t, lambda t: t):
            load("swiglu", variant)(gate, up)
        assert {t.data_ptr() for t in saved} == expected


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(2, 3), torch.ones(3, 2)), r"swiglu: shapes must be equal, got gate \[2, 3\] and up \[3, 2\]"),
        ((torch.ones(2, 3), torch.ones(3)), r"swiglu: shapes must be equal, got gate \[2, 3\] and up \[3\]"),
        ((torch.ones(3), torch.ones(3).double()), r"swiglu: dtypes must be equal, got gate .* and up "),
        ((torch.ones(3), torch.ones(3).long()), r"swiglu: up must hold floating point numbers, got "),
        ((torch.ones(3), torch.ones(3, device="meta")), r"swiglu: devices must be equal, got gate cpu and up meta"),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("swiglu", variant)(*arguments)
