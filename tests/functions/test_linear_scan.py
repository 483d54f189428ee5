import pytest
import torch
from conftest import COMPILED
from truth import assert_matches, evaluate, truth

from autofn import registry

SPEC = registry.spec("linear_scan")
VARIANTS = [variant.name for variant in registry.variants("linear_scan")]
WRITTEN = ["python", "fused", "cpp", "triton"]
# Those that are not compiled anew for each size.
UNCOMPILED = ["eager", "python", "cpp", "triton"]

# Dynamo looks at the .grad of all that a graph is given, saved outputs too, and torch warns of its own look.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")

directions = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])


def made(batch=2, time=11, channels=7, reverse=False, dtype=torch.float32, seed=0):
    inputs = SPEC.make_inputs(batch, time, channels, reverse, dtype=dtype, device="cpu", seed=seed)
    grad = torch.randn(batch, time, channels, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return inputs, (grad,)


@pytest.mark.parametrize("dtype", SPEC.tolerances, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_in_reverse_it_matches_the_float64_reference(variant, dtype, load):
    if dtype != torch.float32 and registry.variant("linear_scan", variant).kind in COMPILED:
        pytest.skip("compiled variants are tested in float32, for the time that they take")
    inputs, grads = made(reverse=True, dtype=dtype)

    got = evaluate(SPEC, load("linear_scan", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), dtype)


@directions
@pytest.mark.parametrize("variant", VARIANTS)
def test_powers_of_two(variant, reverse, load):
    a, x = torch.full((1, 4, 1), 2.0, requires_grad=True), torch.ones(1, 4, 1, requires_grad=True)
    initial = torch.ones(1, 1, requires_grad=True)

    h = load("linear_scan", variant)(a, x, initial, reverse)
    grads = [grad.flatten().tolist() for grad in torch.autograd.grad(h.sum(), (a, x, initial))]

    in_order = [[3, 7, 15, 31], [15 * 1, 7 * 3, 3 * 7, 1 * 15], [15, 7, 3, 1]]
    want = [each[::-1] for each in in_order] if reverse else in_order
    assert [h.flatten().tolist(), *grads] == [*want, [30]]


@directions
@pytest.mark.parametrize("time", [1, 7, 8, 9, 64, 65, 513])
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_any_number_of_steps(variant, time, reverse, load):
    inputs, grads = made(batch=1, time=time, channels=3, reverse=reverse)

    got = evaluate(SPEC, load("linear_scan", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@directions
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_a_coefficient_of_0_forgets_what_was_before(variant, reverse, load):
    (a, x, initial, _), _ = made(time=10, reverse=reverse)
    with torch.no_grad():
        a[:, 5] = 0

    h = load("linear_scan", variant)(a, x, initial, reverse)
    after = slice(0, 5) if reverse else slice(6, None)
    grads = torch.autograd.grad(h[:, after].sum(), (a, x, initial))

    assert torch.equal(h[:, 5], x[:, 5])
    before = slice(6, None) if reverse else slice(0, 5)
    assert not any(grad[:, before].any() for grad in grads[:2])
    assert not grads[2].any()
    assert grads[1][:, 5].all()


@pytest.mark.parametrize("variant", UNCOMPILED)
def test_coefficients_whose_product_is_0_are_no_harm(variant, load):
    (a, x, initial, reverse), grads = made(time=100)
    small = (a.detach() * 1e-3).requires_grad_()

    got = evaluate(SPEC, load("linear_scan", variant), (small, x, initial, reverse), grads)

    assert_matches(SPEC, got, truth(SPEC, (small, x, initial, reverse), grads), torch.float32)


@pytest.mark.parametrize("variant", ["eager", "cpp", "triton"])
def test_coefficients_whose_product_overflows_are_no_harm_while_the_state_is_0(variant, load):
    x = torch.zeros(1, 40, 1)
    x[0, -1] = 1

    h = load("linear_scan", variant)(torch.full_like(x, 1e20), x, torch.zeros(1, 1), False)

    assert torch.equal(h, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("variant", [variant for variant in WRITTEN if variant != "fused"])
def test_half_types_are_carried_in_float32(variant, dtype, load):
    inputs, grads = made(time=513, dtype=dtype)

    got = evaluate(SPEC, load("linear_scan", variant), inputs, grads)

    want = truth(SPEC, inputs, grads)
    # Triton's interpreter cuts off what a GPU rounds.
    rounding = torch.finfo(dtype).eps / (1 if variant == "triton" else 2)
    for found, exact in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        # h is rounded, and so is what is computed from it.
        torch.testing.assert_close(found.double(), exact, rtol=2 * rounding, atol=1e-6)


@directions
def test_the_second_derivative_is_right_in_both_directions(reverse, load):
    inputs, _ = made(batch=1, channels=2, reverse=reverse, dtype=torch.float64)

    assert torch.autograd.gradgradcheck(load("linear_scan", "python"), inputs)


@directions
@pytest.mark.parametrize("shape", [(2, 128, 4096), (1, 300, 4099), (1, 3, 2050)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_the_cpp_kernel_takes_many_channels_in_blocks_and_writes_past_the_caches(dtype, shape, reverse, load):
    inputs, grads = made(*shape, reverse=reverse, dtype=dtype)

    got = evaluate(SPEC, load("linear_scan", "cpp"), inputs, grads)
    want = evaluate(SPEC, load("linear_scan", "python"), inputs, grads)

    ulp = torch.finfo(dtype).eps
    for found, right in zip((*got[0], *got[1]), (*want[0], *want[1]), strict=True):
        torch.testing.assert_close(found, right, rtol=4 * ulp, atol=100 * min(ulp, 2**-23))


@pytest.mark.parametrize(("frozen", "kept"), [(None, "a initial h"), ("x", "a initial h"), ("a", "a")])
@pytest.mark.parametrize("variant", [variant for variant in WRITTEN if variant != "fused"])
def test_what_is_saved_is_given_anyhow(variant, frozen, kept, load):
    (a, x, initial, reverse), _ = made()
    tensors = {"a": a, "x": x, "initial": initial}
    if frozen:
        tensors[frozen].requires_grad_(False)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        tensors["h"] = load("linear_scan", variant)(a, x, initial, reverse)

    assert [t.data_ptr() for t in saved] == [tensors[name].data_ptr() for name in kept.split()]


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, torch.ones(3, 4), r"linear_scan: a must have shape \[\*, \*, \*\], got \[3, 4\]"),
        (0, torch.ones(2, 0, 4), r"linear_scan: time must be at least one step, got a \[2, 0, 4\]"),
        (1, torch.ones(2, 3, 1), r"linear_scan: shapes must be equal, got a \[2, 3, 4\] and x \[2, 3, 1\]"),
        (2, torch.ones(2, 3), r"linear_scan: initial must have shape \[2, 4\], got \[2, 3\]"),
        (2, torch.ones(4), r"linear_scan: initial must have shape \[2, 4\], got \[4\]"),
        (1, torch.ones(2, 3, 4).double(), r"linear_scan: dtypes must be equal, got a "),
        (2, torch.ones(2, 4).double(), r"linear_scan: dtypes must be equal, got a .* and initial "),
        (0, torch.ones(2, 3, 4).long(), r"linear_scan: a must hold floating point numbers, got "),
        (2, torch.ones(2, 4).long(), r"linear_scan: initial must hold floating point numbers, got "),
        (2, torch.ones(2, 4, device="meta"), r"linear_scan: devices must be equal, got a cpu .*and initial meta"),
    ],
)
def test_a_wrong_argument_is_named(variant, position, value, message, load):
    arguments = [torch.ones(2, 3, 4), torch.ones(2, 3, 4), torch.ones(2, 4)]
    arguments[position] = value
    with pytest.raises(ValueError, match=message):
        load("linear_scan", variant)(*arguments, False)
