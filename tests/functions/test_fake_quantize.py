import math

import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("fake_quantize")
VARIANTS = [variant.name for variant in registry.variants("fake_quantize")]
WRITTEN = ["python", "fused", "cpp"]
RANGE = (-8, 7)
INF, NAN = float("inf"), float("nan")


def leaf(values, dtype=torch.float32):
    return torch.as_tensor(values, dtype=dtype).clone().requires_grad_()


def arguments(shape, channel, dtype=torch.float32):
    """x of the shape and the steps of its channel, such that no x / step lies near a half."""
    generator = torch.Generator().manual_seed(0)
    ratio = 5 * torch.randn(shape, generator=generator)
    ratio = ratio.round() + 0.9 * (ratio - ratio.round())
    step = 0.1 + 0.05 * torch.rand(() if channel is None else (shape[channel],), generator=generator)
    over_x = [1] * len(shape)
    if channel is not None:
        over_x[channel] = -1
    return leaf(ratio * step.reshape(over_x), dtype), leaf(step, dtype), *RANGE, channel


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_gradients_are_those_of_the_formula_at_corners_halves_and_beyond(variant, load):
    # Below, at, and above both ends, two halves, and two in between; the step is a power of two: x / step is exact.
    ratios = [-9.0, -8.0, 7.0, 7.25, 20.0, 0.5, 1.5, -0.25, 3.75]
    x, step = leaf([0.25 * ratio for ratio in ratios]), leaf(0.25)

    y = load("fake_quantize", variant)(x, step, *RANGE, None)
    grad_x, grad_step = torch.autograd.grad(y.sum(), (x, step))

    assert y.tolist() == [0.25 * whole for whole in (-8, -8, 7, 7, 7, 0, 2, 0, 4)]
    assert grad_x.tolist() == [0, 1, 1, 0, 0, 1, 1, 1, 1]
    slopes = [-8, 0, 0, 7, 7, -0.5, 0.5, 0.25, 0.25]
    assert grad_step.item() == pytest.approx(sum(slopes) / math.sqrt(len(slopes) * 7), rel=1e-6)


SHAPES = [((7,), 0), ((5, 8), 1), ((3, 4, 5), 1), ((2, 3, 4, 4), -3), ((3, 9), -1), ((2, 9001), 0), ((1, 6), 0)]


@pytest.mark.parametrize(("shape", "channel"), SHAPES, ids=str)
@pytest.mark.parametrize("variant", WRITTEN)
def test_a_channel_may_be_any_dimension(variant, shape, channel, load):
    if variant == "fused" and len(shape) == 4:
        pytest.skip("one shape in three dimensions tells the same")
    inputs = arguments(shape, channel)
    grads = (torch.randn(shape, generator=torch.Generator().manual_seed(1)),)

    got = evaluate(SPEC, load("fake_quantize", variant), inputs, grads)

    assert got[1][1].shape == inputs[1].shape
    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("shape", [(0, 7), (7, 0)], ids=str)
@pytest.mark.parametrize("channel", [None, 0, 1])
@pytest.mark.parametrize("variant", ["python", "cpp"])
def test_nothing_to_quantise_gives_steps_without_a_slope(variant, channel, shape, load):
    x, step, *options = arguments(shape, channel)
    y = load("fake_quantize", variant)(x, step, *options)
    grad_x, grad_step = torch.autograd.grad(y, (x, step), torch.ones_like(y))
    assert (y.shape, grad_x.shape) == (shape, shape)
    assert torch.equal(grad_step, torch.zeros_like(step))


@pytest.mark.parametrize("variant", WRITTEN)
def test_a_step_may_be_of_one_dimension_and_x_of_none(variant, load):
    x, step = leaf(0.3), leaf([0.25])
    y = load("fake_quantize", variant)(x, step, *RANGE, None)
    grad_x, grad_step = torch.autograd.grad(y, (x, step))
    assert (y.item(), grad_x.item()) == (0.25, 1)
    assert grad_step.shape == (1,)
    assert grad_step.item() == pytest.approx((1 - 0.3 / 0.25) / math.sqrt(7), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_round_the_quotient_that_float64_has(dtype, load):
    x, step = leaf(torch.linspace(-9, 9, 4001), dtype), leaf(0.7, dtype)
    y = load("fake_quantize", "cpp")(x, step, -8, 7, None)
    whole = (x.double() / step.double()).clamp(-8, 7).round()
    assert torch.equal(y, (whole * step.double()).to(dtype))


@pytest.mark.parametrize("variant", ["eager", "python", "cpp"])
def test_the_step_gradient_of_half_types_is_summed_in_float(variant, load):
    # Each term is 7: in bfloat16 the sum would stop at 2048.
    x, step = leaf(torch.full((4096,), 100.0), torch.bfloat16), leaf(1.0, torch.bfloat16)
    y = load("fake_quantize", variant)(x, step, *RANGE, None)
    (grad,) = torch.autograd.grad(y, step, torch.ones_like(y))
    assert grad.item() == pytest.approx(4096 * 7 / math.sqrt(4096 * 7), rel=2**-8)


@pytest.mark.parametrize("channel", [None, 0])
def test_the_sum_of_the_step_gradient_does_not_depend_on_the_number_of_threads(channel, load):
    x, step, *options = arguments((2, 300_000), channel)
    grads = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        y = load("fake_quantize", "cpp")(x, step, *options)
        grads.append(torch.autograd.grad(y, step, torch.ones_like(y))[0])
    torch.set_num_threads(1)
    assert torch.equal(*grads)


@pytest.mark.parametrize("variant", WRITTEN)
def test_infinities_are_clipped_and_nan_stays_without_a_gradient(variant, load):
    x, step = leaf([INF, -INF, NAN]), leaf(0.5)
    y = load("fake_quantize", variant)(x, step, *RANGE, None)
    grad_x, grad_step = torch.autograd.grad(y, (x, step), torch.tensor([1.0, 1.0, 0.0]), retain_graph=True)
    assert y[:2].tolist() == [3.5, -4]
    assert y[2].isnan()
    assert grad_x.tolist() == [0, 0, 0]
    assert grad_step.isnan()


def test_an_output_written_past_the_caches_is_the_same(load):
    # 8 MiB and 5 lanes: one piece is not full, and neither is its last vector.
    inputs = arguments((2**21 + 5,), None)
    grads = (torch.ones(2**21 + 5),)

    got = evaluate(SPEC, load("fake_quantize", "cpp"), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("channel", [None, 1])
def test_the_second_derivative_of_python_is_the_slope_of_its_gradient(channel, load):
    apply = load("fake_quantize", "python")
    x, step, *options = arguments((5, 7), channel, torch.float64)
    grad_output = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)

    def gradients(x, step, grad_output):
        return torch.autograd.grad(apply(x, step, *options), (x, step), grad_output, create_graph=True)

    assert torch.autograd.gradcheck(gradients, (x, step, grad_output))


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((leaf([1.0]), leaf([1.0, 1.0]), -8, 7, None), r"step must be one number, got \[2\]; or give its channel"),
        ((leaf([1.0]), leaf([[1.0]]), -8, 7, None), r"step must be one number, got \[1, 1\]; or give its channel"),
        ((leaf([[1.0, 2.0]]), leaf([1.0]), -8, 7, 1), r"step must have shape \[2\], got \[1\]"),
        ((leaf([[1.0, 2.0]]), leaf(1.0), -8, 7, 0), r"step must have shape \[1\], got \[\]"),
        ((leaf([1.0]), leaf([1.0]), -8, 7, 1), r"channel must be a dimension of x, which has 1, got 1"),
        ((leaf(1.0), leaf([1.0]), -8, 7, -1), r"channel must be a dimension of x, which has 0, got -1"),
        ((leaf([1.0]), leaf(1.0), 7, 7, None), r"quant_min must be below quant_max, got 7 and 7"),
        ((leaf([1.0]), leaf(1.0), -8, 0, None), r"quant_max must be above 0, got 0"),
        ((leaf([1.0]), leaf(1.0, torch.float64), -8, 7, None), r"dtypes must be equal, got x .* and step "),
        ((torch.ones(2).long(), leaf(1.0), -8, 7, None), r"x must hold floating point numbers, got "),
        ((torch.ones(2, device="meta"), leaf(1.0), -8, 7, None), r"devices must be equal, got x meta and step cpu"),
    ],
)
def test_a_wrong_argument_is_named(variant, given, message, load):
    with pytest.raises(ValueError, match=f"fake_quantize: {message}"):
        load("fake_quantize", variant)(*given)
