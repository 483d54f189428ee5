import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("rms_norm")
VARIANTS = [variant.name for variant in registry.variants("rms_norm")]
WRITTEN = ["python", "fused", "cpp", "triton"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_row_of_zeros_stays_finite(variant, load):
    x, weight = torch.randn(3, 8), torch.ones(8, requires_grad=True)
    x[1] = 0
    x.requires_grad_()

    y = load("rms_norm", variant)(x, weight, 1e-6)
    grads = torch.autograd.grad(y, (x, weight), torch.ones_like(y))

    assert not y[1].any()
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant not in ("compile", "fused")])
def test_the_weight_gradient_of_half_types_is_summed_in_float(variant, load):
    x = torch.ones(4096, 8, dtype=torch.bfloat16)
    weight = torch.ones(8, dtype=torch.bfloat16, requires_grad=True)

    y = load("rms_norm", variant)(x, weight, 1e-6)
    (grad,) = torch.autograd.grad(y, weight, torch.ones_like(y))

    # In bfloat16 the sum would stop at 256, where adding 1 no longer changes it.
    assert grad.tolist() == [4096] * 8


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0, 8), (1, 67), (3, 2051)], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_any_number_of_leading_dimensions_counts_as_rows(variant, shape, load):
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(shape, generator=generator), torch.randn(shape[-1], generator=generator)
    inputs, grads = (x.requires_grad_(), weight.requires_grad_(), 1e-6), (torch.randn(shape, generator=generator),)

    got = evaluate(SPEC, load("rms_norm", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("variant", ["fused", "cpp", "triton"])
def test_one_number_a_row_is_saved_beside_the_inputs(variant, load):
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("rms_norm", variant)(x, weight, 1e-6)

    new = [t for t in saved if t.data_ptr() not in (x.data_ptr(), weight.data_ptr())]
    assert [(tuple(t.shape), t.dtype) for t in new] == [((4, 1), torch.float32)]


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3, 8), torch.ones(7), 1e-6), r"rms_norm: weight must have shape \[8\], got \[7\]"),
        ((torch.ones(3, 8), torch.ones(1, 8), 1e-6), r"rms_norm: weight must have shape \[8\], got \[1, 8\]"),
        ((torch.tensor(1.0), torch.ones(1), 1e-6), r"rms_norm: x must have at least one dimension"),
        ((torch.ones(3, 8), torch.ones(8).double(), 1e-6), r"rms_norm: dtypes must be equal, got x "),
        ((torch.ones(3, 8), torch.ones(8), 0.0), r"rms_norm: eps must be above 0, got 0"),
        ((torch.ones(3, 8).long(), torch.ones(8).long(), 1e-6), r"rms_norm: x must hold floating point numbers, got "),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("rms_norm", variant)(*arguments)
