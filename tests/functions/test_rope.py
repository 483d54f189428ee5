import pytest
import torch
from conftest import COMPILED
from truth import assert_matches, evaluate, prepared, truth

from autofn import registry

SPEC = registry.spec("rope")
VARIANTS = [variant.name for variant in registry.variants("rope")]
WRITTEN = ["python", "fused", "cpp", "triton"]
# Those whose turn is not python's, compiled anew for each size.
UNCOMPILED = ["python", "cpp", "triton"]

layouts = pytest.mark.parametrize("interleaved", [False, True], ids=["halves", "interleaved"])


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def tables(positions, pairs, dtype=torch.float32):
    angles = normal(positions, pairs, seed=1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


@pytest.mark.parametrize("workload", ["tiny_interleaved", "small_interleaved"])
@pytest.mark.parametrize("dtype", SPEC.tolerances, ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_interleaved_pairs_match_the_float64_reference(variant, dtype, workload, load):
    if dtype != torch.float32 and registry.variant("rope", variant).kind in COMPILED:
        pytest.skip("compiled variants are tested in float32, for the time that they take")
    case = prepared(SPEC, variant, workload, dtype, load("rope", variant))

    got = evaluate(SPEC, case.apply, case.inputs, case.grad_outputs)

    assert_matches(SPEC, got, truth(SPEC, case.inputs, case.grad_outputs), dtype)


@pytest.mark.parametrize(
    ("interleaved", "turned"),
    [(False, [-3.0, -4, 1, 2, 5]), (True, [-2.0, 1, -4, 3, 5])],
    ids=["halves", "interleaved"],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_quarter_turn_makes_a_of_minus_b_and_b_of_a(variant, interleaved, turned, load):
    x = torch.tensor([[1.0, 2, 3, 4, 5]], requires_grad=True)

    y = load("rope", variant)(x, torch.zeros(1, 2), torch.ones(1, 2), interleaved)
    (grad,) = torch.autograd.grad(y, x, y.detach())

    assert y.tolist() == [turned]
    assert torch.equal(grad, x)


@layouts
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_a_nan_stays_within_its_pair(variant, interleaved, load):
    x = normal(3, 10)
    x[0, 1], x[1, 9] = torch.nan, torch.inf
    partner = {False: 4, True: 0}[interleaved]

    y = load("rope", variant)(x, *tables(3, 3), interleaved)

    assert y[0].isnan().nonzero().flatten().tolist() == sorted([1, partner])
    assert y[1].isfinite().tolist() == [True] * 9 + [False]
    assert torch.equal(y[:2, 6:9], x[:2, 6:9])


@layouts
@pytest.mark.parametrize("shape", [(4, 8), (2, 4, 8), (2, 1, 3, 4, 67), (2, 0, 4, 8), (2, 0, 8), (4, 0)], ids=str)
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_any_number_of_leading_dimensions_counts_as_rows(variant, shape, interleaved, load):
    pairs = min(shape[-1] // 2, 17)
    inputs = normal(*shape).requires_grad_(), *tables(shape[-2], pairs), interleaved
    grads = (normal(*shape, seed=2),)

    got = evaluate(SPEC, load("rope", variant), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@layouts
@pytest.mark.parametrize("variant", UNCOMPILED)
def test_without_pairs_everything_passes(variant, interleaved, load):
    x = normal(2, 3, 5)

    assert torch.equal(load("rope", variant)(x, torch.ones(3, 0), torch.ones(3, 0), interleaved), x)


@layouts
@pytest.mark.parametrize("pairs", [64, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_the_cpp_kernel_turns_what_it_writes_past_the_caches(dtype, pairs, interleaved, load):
    # 8 MiB and more; with 33 pairs the rows' parts are not aligned, so that they are not.
    positions = 2**23 // (128 * dtype.itemsize)
    arguments = normal(positions, 128, dtype=dtype), *tables(positions, pairs, dtype), interleaved

    y = load("rope", "cpp")(*arguments)

    exact = SPEC.reference(*(t.double() if isinstance(t, torch.Tensor) else t for t in arguments))
    ulp = torch.finfo(dtype).eps
    torch.testing.assert_close(y.double(), exact, rtol=ulp, atol=4 * min(ulp, 2**-23))


@layouts
@pytest.mark.parametrize("variant", WRITTEN)
def test_the_derivative_by_grad_output_is_the_turn_itself(variant, interleaved, load):
    apply = load("rope", variant)
    x, grad = normal(3, 8).requires_grad_(), normal(3, 8, seed=2).requires_grad_()
    arguments = *tables(3, 4), interleaved

    (grad_x,) = torch.autograd.grad(apply(x, *arguments), x, grad, create_graph=True)
    (found,) = torch.autograd.grad(grad_x, grad, x.detach())

    torch.testing.assert_close(found, apply(x.detach(), *arguments))


@pytest.mark.parametrize("variant", WRITTEN)
def test_only_the_tables_are_saved(variant, load):
    cos, sin = tables(3, 4)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("rope", variant)(normal(2, 3, 8).requires_grad_(), cos, sin, False)

    assert [t.data_ptr() for t in saved] == [cos.data_ptr(), sin.data_ptr()]


@pytest.mark.parametrize("name", ["cos", "sin"])
@pytest.mark.parametrize("variant", WRITTEN)
def test_a_table_that_requires_grad_is_refused(variant, name, load):
    arguments = dict(zip(("x", "cos", "sin"), (normal(3, 8), *tables(3, 4)), strict=True))
    arguments[name].requires_grad_()

    with pytest.raises(
        ValueError, match=rf"rope: {name} must not require grad, it has no gradient here; hand in {name}"
    ):
        load("rope", variant)(*arguments.values(), False)


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, torch.ones(8), r"rope: x must have at least two dimensions, got \[8\]"),
        (1, torch.ones(2, 4), r"rope: cos must have shape \[3, \*\], got \[2, 4\]"),
        (1, torch.ones(1, 3, 4), r"rope: cos must have shape \[3, \*\], got \[1, 3, 4\]"),
        (2, torch.ones(3, 3), r"rope: shapes must be equal, got cos \[3, 4\] and sin \[3, 3\]"),
        (0, torch.ones(3, 7), r"rope: cos must hold at most features / 2 pairs, got 4 for 7 features"),
        (0, torch.ones(3, 8).double(), r"rope: dtypes must be equal, got x "),
        (2, torch.ones(3, 4).half(), r"rope: dtypes must be equal, got .* and sin "),
        (0, torch.ones(3, 8).long(), r"rope: x must hold floating point numbers, got "),
        (2, torch.ones(3, 4, device="meta"), r"rope: devices must be equal, got .*cos cpu and sin meta"),
    ],
)
def test_a_wrong_argument_is_named(variant, position, value, message, load):
    arguments = [torch.ones(3, 8), torch.ones(3, 4), torch.ones(3, 4)]
    arguments[position] = value
    with pytest.raises(ValueError, match=message):
        load("rope", variant)(*arguments, False)
