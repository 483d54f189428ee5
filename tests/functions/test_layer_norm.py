import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("layer_norm")
VARIANTS = [variant.name for variant in registry.variants("layer_norm")]
WRITTEN = ["python", "fused", "cpp", "triton"]
UNCOMPILED = [variant for variant in VARIANTS if variant not in ("compile", "fused")]


def parameters(features, dtype=torch.float32):
    return torch.ones(features, dtype=dtype, requires_grad=True), torch.zeros(features, dtype=dtype, requires_grad=True)


# 4 columns are no whole vector, 1,000 are many and a rest. 0.1 has a mean that must be rounded.
@pytest.mark.parametrize("columns", [1, 4, 1000])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_constant_row_is_the_bias(variant, columns, load):
    x = torch.randn(3, columns, generator=torch.Generator().manual_seed(0))
    x[1] = 0.1
    x.requires_grad_()
    weight, bias = parameters(columns)
    bias = bias.detach().fill_(5).requires_grad_()

    y = load("layer_norm", variant)(x, weight, bias, 1e-5)
    grads = torch.autograd.grad(y, (x, weight, bias), torch.ones_like(y))

    # Added up in 8 lanes a mean may be off by 128 ulps of 0.1, 2**-27 each; the rest is scaled by eps**-0.5.
    torch.testing.assert_close(y[1], torch.full((columns,), 5.0), rtol=0, atol=128 * 2**-27 * 1e-5**-0.5)
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_variance_keeps_its_digits_where_the_mean_is_large(variant, load):
    generator = torch.Generator().manual_seed(0)
    x = (1e4 + torch.randn(5, 1000, generator=generator)).requires_grad_()
    inputs, grads = (x, *parameters(1000), 1e-5), (torch.randn(5, 1000, generator=generator),)

    got = evaluate(SPEC, load("layer_norm", variant), inputs, grads)

    # mean(x**2) - mean(x)**2 is off by 8, an ulp of 1e8, where the variance is 1. The mean is off by some ulps of 1e4,
    # 2**-10 each, and so are the results, where z is about 1.
    outputs, gradients = truth(SPEC, inputs, grads)
    for found, exact in zip((*got[0], *got[1]), (*outputs, *gradients), strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=0, atol=16 * 2**-10)


@pytest.mark.parametrize("features", [8, 1 << 20])
def test_the_kernels_mean_is_right_to_an_ulp(features):
    x = 1e4 + torch.randn(2, features, generator=torch.Generator().manual_seed(0))

    _, mean, inverse = torch.ops.autofn.layer_norm_forward(x, *parameters(features), 1e-5)

    exact = x.double()
    torch.testing.assert_close(mean.double(), exact.mean(-1, keepdim=True), rtol=2**-23, atol=0)
    variance = exact.var(-1, unbiased=False, keepdim=True)
    # Each lane adds up 65,536 squares in turn; their sum is seen to be off by 2e-5.
    torch.testing.assert_close(inverse.double(), (variance + 1e-5).rsqrt(), rtol=5e-5, atol=0)


@pytest.mark.parametrize("variant", UNCOMPILED)
def test_the_gradients_of_half_types_are_summed_in_float(variant, load):
    x = torch.tensor([-1.0, 1, -1, 1, -1, 1, -1, 1], dtype=torch.bfloat16).repeat(512, 1)
    weight, bias = parameters(8, torch.bfloat16)

    y = load("layer_norm", variant)(x, weight, bias, 1e-12)
    grads = torch.autograd.grad(y, (weight, bias), x)

    # In bfloat16 the sums would stop at 256, where adding 1 no longer changes them.
    assert grads[0].tolist() == [512] * 8
    assert grads[1].tolist() == [-512, 512] * 4


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8), (2, 0, 8), (3, 0), (1, 67), (2, 1), (3, 1500)], ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_any_number_of_leading_dimensions_counts_as_rows(variant, shape, load):
    generator = torch.Generator().manual_seed(0)
    x, grad_output = (torch.randn(shape, generator=generator) for _ in range(2))
    weight, bias = (torch.randn(shape[-1], generator=generator) for _ in range(2))
    inputs, grads = (*(t.requires_grad_() for t in (x, weight, bias)), 1e-5), (grad_output,)

    got = evaluate(SPEC, load("layer_norm", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


def saved_by(apply, x, weight, bias):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        apply(x, weight, bias, 1e-5)
    return [t for t in saved if t is not None]


@pytest.mark.parametrize("variant", ["fused", "cpp", "triton"])
def test_two_numbers_a_row_are_saved_beside_the_inputs(variant, load):
    x = torch.randn(4, 8, dtype=torch.bfloat16, requires_grad=True)
    weight, bias = parameters(8, torch.bfloat16)

    saved = saved_by(load("layer_norm", variant), x, weight, bias)

    new = [t for t in saved if t.data_ptr() not in (x.data_ptr(), weight.data_ptr())]
    assert [(tuple(t.shape), t.dtype) for t in new] == [((4, 1), torch.float32)] * 2
    assert len(saved) == 4


@pytest.mark.parametrize("variant", WRITTEN)
def test_the_gradient_of_the_bias_alone_saves_nothing(variant, load):
    weight, bias = parameters(8)

    assert saved_by(load("layer_norm", variant), torch.randn(4, 8), weight.detach(), bias) == []


@pytest.mark.parametrize("columns", [256, 255])
def test_rows_of_a_large_output_are_the_same_past_the_caches(columns, load):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5000, columns, generator=generator)
    parameters = tuple(torch.randn(columns, generator=generator) for _ in range(2))
    apply = load("layer_norm", "cpp")

    def gradient(rows):
        rows = rows.clone().requires_grad_()
        y = apply(rows, *parameters, 1e-5)
        return y.detach(), torch.autograd.grad(y, rows, rows.detach())[0]

    y, grad = gradient(x)

    few = [gradient(rows) for rows in x.split(1000)]
    assert torch.equal(y, torch.cat([y for y, _ in few]))
    assert torch.equal(grad, torch.cat([grad for _, grad in few]))


def test_python_works_under_vmap_over_every_input(load):
    generator = torch.Generator().manual_seed(0)
    x, grad = (torch.randn(3, 4, 8, generator=generator) for _ in range(2))
    weight, bias = (torch.randn(3, 8, generator=generator) for _ in range(2))

    def gradients(apply):
        def loss(x, weight, bias, grad):
            return (apply(x, weight, bias, 1e-5) * grad).sum()

        return torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2)))(x, weight, bias, grad)

    for got, want in zip(gradients(load("layer_norm", "python")), gradients(SPEC.reference), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("variant", [*WRITTEN, "native"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3, 8), torch.ones(7), torch.ones(8), 1e-5), r"weight must have shape \[8\], got \[7\]"),
        ((torch.ones(3, 8), torch.ones(8), torch.ones(1, 8), 1e-5), r"bias must have shape \[8\], got \[1, 8\]"),
        ((torch.tensor(1.0), torch.ones(1), torch.ones(1), 1e-5), r"x must have at least one dimension"),
        ((torch.ones(3, 8), torch.ones(8), torch.ones(8).double(), 1e-5), r"dtypes must be equal, got x "),
        ((torch.ones(3, 8), torch.ones(8), torch.ones(8), 0.0), r"eps must be above 0, got 0"),
        ((torch.ones(3, 8), torch.ones(8, device="meta"), torch.ones(8), 1e-5), r"devices must be equal, got x cpu"),
        ((torch.ones(3, 8).long(), torch.ones(8).long(), torch.ones(8).long(), 1e-5), r"x must hold floating point"),
    ],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=f"layer_norm: {message}"):
        load("layer_norm", variant)(*arguments)
