import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("linear")
VARIANTS = [variant.name for variant in registry.variants("linear")]
WRITTEN = ["python", "fused", "cpp"]


def leaf(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).requires_grad_()


@pytest.mark.parametrize("variant", VARIANTS)
def test_bias_may_be_absent(variant, load):
    inputs, grads = (leaf(5, 7), leaf(3, 7), None), (torch.ones(5, 3),)

    got = evaluate(SPEC, load("linear", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("shape", [(7,), (2, 4, 7), (2, 0, 7)], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_any_number_of_leading_dimensions_counts_as_rows(variant, shape, load):
    inputs, grads = (leaf(*shape), leaf(3, 7), leaf(3)), (torch.ones(*shape[:-1], 3),)

    got = evaluate(SPEC, load("linear", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("variant", WRITTEN)
def test_nothing_is_saved_for_an_input_that_needs_no_gradient(variant, load):
    apply = load("linear", variant)

    def saved(input, weight):
        shapes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: shapes.append(tuple(t.shape)) or t, lambda t: t):
            apply(input, weight, leaf(3))
        return shapes

    assert saved(leaf(5, 7), leaf(3, 7).detach()) == [(3, 7)]
    assert saved(leaf(5, 7).detach(), leaf(3, 7)) == [(5, 7)]
    assert saved(leaf(5, 7).detach(), leaf(3, 7).detach()) == []


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_bias_gradient_of_half_types_is_summed_in_float(variant, load):
    if variant == "fused":
        pytest.skip("compiled variants are tested in float32 only, for their time")
    bias = torch.zeros(3, dtype=torch.bfloat16, requires_grad=True)
    ones = torch.ones(4096, 3, dtype=torch.bfloat16)

    output = load("linear", variant)(torch.ones(4096, 2, dtype=torch.bfloat16), torch.ones(3, 2).bfloat16(), bias)
    (grad,) = torch.autograd.grad(output, bias, ones)

    # In bfloat16 the sum would stop at 256, where adding 1 no longer changes it.
    assert grad.tolist() == [4096, 4096, 4096]


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((leaf(5, 7), leaf(3, 6), None), r"linear: weight must have shape \[\*, 7\], got \[3, 6\]"),
        ((leaf(5, 7), leaf(7), None), r"linear: weight must have shape \[\*, 7\], got \[7\]"),
        ((leaf(5, 7), leaf(3, 7), leaf(4)), r"linear: bias must have shape \[3\], got \[4\]"),
        ((torch.tensor(1.0), leaf(3, 7), None), r"linear: input must have at least one dimension"),
        ((leaf(5, 7), leaf(3, 7).double(), None), r"linear: dtypes must be equal, got "),
        ((torch.ones(5, 7, dtype=torch.int64), leaf(3, 7), None), r"linear: input must hold floating point numbers"),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("linear", variant)(*arguments)
