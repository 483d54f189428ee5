import pytest
import torch
from truth import assert_matches, truth

from autofn import registry

SPEC = registry.spec("lltm")
VARIANTS = [variant.name for variant in registry.variants("lltm")]
WRITTEN = ["python", "fused", "cpp"]
GRAD_WARNING = "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"


def tiny():
    return SPEC.make_inputs(**SPEC.workloads["tiny"], dtype=torch.float32, device="cpu")


@pytest.mark.filterwarnings(GRAD_WARNING)
@pytest.mark.parametrize("unused", [0, 1], ids=["new_h", "new_cell"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_output_may_be_unused(variant, unused, load):
    inputs = tiny()
    grads = [torch.ones_like(inputs[3]), torch.ones_like(inputs[3])]
    grads[unused].zero_()

    outputs = load("lltm", variant)(*inputs)
    found = torch.autograd.grad(outputs[1 - unused].sum(), inputs, allow_unused=True)

    _, want = truth(SPEC, inputs, tuple(grads))
    assert_matches(SPEC, ((), found), ((), want), torch.float32)


@pytest.mark.parametrize("unused", [0, 1], ids=["new_h", "new_cell"])
def test_the_second_derivative_holds_with_an_unused_output(unused, load):
    inputs = SPEC.make_inputs(**SPEC.workloads["tiny"], dtype=torch.float64, device="cpu")
    apply = load("lltm", "python")

    assert torch.autograd.gradgradcheck(lambda *arguments: apply(*arguments)[1 - unused], inputs)


@pytest.mark.filterwarnings(GRAD_WARNING)
@pytest.mark.parametrize("variant", WRITTEN)
def test_the_gates_are_the_only_new_memory_that_is_saved(variant, load):
    inputs, saved = tiny(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        outputs = load("lltm", variant)(*inputs)

    known = {t.data_ptr() for t in (*inputs, *outputs)}
    batch, state = inputs[3].shape
    assert [tuple(t.shape) for t in saved if t.data_ptr() not in known] == [(batch, 3 * state)]
    assert len({t.data_ptr() for t in saved}) == len(saved)


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, torch.ones(3), r"lltm: input must have shape \[\*, \*\], got \[3\]"),
        (1, torch.ones(6, 5), r"lltm: weights must have shape \[6, 6\], got \[6, 5\]"),
        (2, torch.ones(5), r"lltm: bias must have shape \[6\], got \[5\]"),
        (3, torch.ones(4, 2), r"lltm: old_h must have shape \[3, .\], got \[4, 2\]"),
        (4, torch.ones(3, 1), r"lltm: old_cell must have shape \[3, 2\], got \[3, 1\]"),
        (4, torch.ones(3, 2).double(), r"lltm: dtypes must be equal, got "),
        (0, torch.ones(3, 4).long(), r"lltm: input must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, position, value, message, load):
    inputs = list(tiny())
    inputs[position] = value
    with pytest.raises(ValueError, match=message):
        load("lltm", variant)(*inputs)
