import math

import pytest
import torch

from autofn import compiled, registry
from autofn.functions.dropout.mask import kept, packed, unpacked

VARIANTS = [variant.name for variant in registry.variants("dropout")]
WRITTEN = ["python", "python_mask", "fused", "cpp", "cpp_mask", "triton"]
EAGER = [variant for variant in WRITTEN if variant != "fused"]
SEEDS = [0, 1, -1, 2**32, 2**63 - 1, -(2**63), 0x0123456789ABCDEF]


def hashed(index, seed):
    """The hash in Python's integers, which have no width to get wrong."""
    word = 2**32 - 1
    spread = lambda value: value * 0x9E3779B9 + (value >> 16) * 0x7FEB352D  # noqa: E731
    low, high = seed & word, seed >> 32 & word
    second = (high + spread(low)) & word
    h = (index * 0x9E3779B9 + low + spread(second)) & word
    h = (h ^ h >> 17) * 0xED5AD4BB & word ^ second
    h = (h ^ h >> 11) * 0xAC4C1B51 & word
    return (h ^ h >> 15) * 0x31848BAB & word


def is_kept(index, p, seed):
    return hashed(index, seed) >= math.floor(p * 2**32)


def mask_of(p, seed, count=2**20):
    return kept(torch.empty(count), p, seed)


def output_and_gradient(apply, x, p, seed):
    x = x.detach().requires_grad_()
    y = apply(x, p, seed)
    (grad_x,) = torch.autograd.grad(y, x, torch.ones_like(y))
    return y.detach(), grad_x


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_element_is_dropped_where_its_hash_is_low(variant, seed, load):
    y, grad_x = output_and_gradient(load("dropout", variant), torch.ones(67), 0.3, seed)

    want = [1 / 0.7 if is_kept(index, 0.3, seed) else 0 for index in range(67)]
    assert y.tolist() == pytest.approx(want, rel=1e-6)
    assert torch.equal(grad_x, y)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (8,), (9,), (17,), (2, 0, 3), (3, 5, 67)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("variant", EAGER)
def test_every_variant_drops_the_same_elements_in_any_shape_and_dtype(variant, dtype, shape, load):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)

    y, grad_x = output_and_gradient(load("dropout", variant), x, 0.5, 3)

    # At one half the factor is 2: nothing is rounded.
    want, grad = output_and_gradient(registry.spec("dropout").reference, x, 0.5, 3)
    assert torch.equal(y, want)
    assert torch.equal(grad_x, grad)


@pytest.mark.parametrize("variant", ["cpp", "cpp_mask"])
def test_threads_change_nothing(variant, load):
    x = torch.randn(3 * 2**15 + 5)
    alone = output_and_gradient(load("dropout", variant), x, 0.5, 3)
    torch.set_num_threads(2)
    try:
        together = output_and_gradient(load("dropout", variant), x, 0.5, 3)
    finally:
        torch.set_num_threads(1)

    assert all(map(torch.equal, together, alone))


@pytest.mark.parametrize("variant", ["cpp", "cpp_mask"])
def test_an_output_written_past_the_caches_is_the_same(variant, load):
    x = torch.randn(2**20 + 5)

    found = output_and_gradient(load("dropout", variant), x, 0.5, 3)

    assert all(map(torch.equal, found, output_and_gradient(registry.spec("dropout").reference, x, 0.5, 3)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_dropped_at_p_0(variant, load):
    x = torch.randn(1000)

    y, grad_x = output_and_gradient(load("dropout", variant), x, 0.0, 5)

    assert torch.equal(y, x)
    assert torch.equal(grad_x, torch.ones(1000))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_dropped_element_is_zero_whatever_it_held(variant, load):
    keep = kept(torch.empty(64), 0.5, 3)
    x = torch.full((64,), float("nan"))
    x[::2] = float("inf")

    y, _ = output_and_gradient(load("dropout", variant), x, 0.5, 3)

    assert not y[~keep].any()
    assert torch.equal(y[keep].isnan(), x[keep].isnan())


@pytest.mark.parametrize("p", [0.5, 0.1, 0.001])
def test_a_share_of_p_is_dropped_with_every_seed(p):
    count = 2**20
    shares = [count - int(mask_of(p, seed, count).sum()) for seed in range(40)]

    off = [(dropped - count * p) / math.sqrt(count * p * (1 - p)) for dropped in shares]
    assert max(map(abs, off)) < 5
    assert sum(z * z for z in off) / len(off) == pytest.approx(1, abs=5 * math.sqrt(2 / len(off)))


def disagreement(a, b):
    """How many standard deviations the count of unequal elements is off one half."""
    return (2 * int((a != b).sum()) - a.numel()) / math.sqrt(a.numel())


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8, 16, 32, 64, 512, 1000, 1024, 4096, 65536])
def test_elements_of_a_mask_are_independent(lag):
    keep = mask_of(0.5, 11)
    assert abs(disagreement(keep[lag:], keep[:-lag])) < 5


@pytest.mark.parametrize("step", [1, 2, 3, 0x9E3779B9, *(2**bit for bit in range(2, 64, 3)), 2**62, 2**63])
def test_masks_of_near_seeds_are_independent(step):
    keep = mask_of(0.5, 11)
    other = mask_of(0.5, (11 + step + 2**63) % 2**64 - 2**63)
    # Shifted against each other too: a seed must not only move the mask.
    assert max(abs(disagreement(keep[lag:], other[: other.numel() - lag])) for lag in (0, 1, 2)) < 5
    assert max(abs(disagreement(other[lag:], keep[: keep.numel() - lag])) for lag in (1, 2)) < 5


def test_sixteen_neighbours_take_every_pattern_equally_often():
    keep = mask_of(0.5, 11, 2**24).reshape(-1, 16)
    counts = torch.bincount((keep.int() << torch.arange(16)).sum(1), minlength=2**16)

    expected = keep.shape[0] / 2**16
    chi = float((counts - expected).square().sum() / expected)
    assert abs(chi - 2**16) < 5 * math.sqrt(2 * 2**16)


@pytest.mark.parametrize("variant", ["compile", "fused"])
def test_a_seed_for_each_call_is_compiled_for_twice_at_most(variant, load):
    apply, x = load("dropout", variant), torch.randn(1000)
    before = compiled.counts()
    for seed in (3, 5, 0, 1, -7, 2**40, 2**63 - 1, 12345, 54321, 99):
        want, _ = output_and_gradient(registry.spec("dropout").reference, x, 0.5, seed)
        # Without a gradient, which `compile` makes a graph of its own for.
        assert torch.equal(apply(x, 0.5, seed), want)

    assert (compiled.counts() - before).graphs <= 2


@pytest.mark.parametrize("count", [0, 1, 8, 9, 64])
def test_a_mask_is_packed_into_bits_and_back(count):
    keep = torch.rand(count, generator=torch.Generator().manual_seed(0)) < 0.5
    mask = packed(keep)

    assert mask.numel() == -(-count // 8)
    assert torch.equal(unpacked(mask, keep.shape), keep)


@pytest.mark.parametrize("variant", ["python_mask", "cpp_mask"])
def test_the_mask_alone_is_saved(variant, load):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        load("dropout", variant)(torch.randn(3, 7, requires_grad=True), 0.5, 3)

    assert [(tuple(t.shape), t.dtype) for t in saved] == [((3,), torch.uint8)]


@pytest.mark.parametrize("variant", WRITTEN)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3), 1.0, 0), r"dropout: p must be at least 0 and below 1, got 1"),
        ((torch.ones(3), -0.1, 0), r"dropout: p must be at least 0 and below 1, got -0.1"),
        ((torch.ones(3), float("nan"), 0), r"dropout: p must be at least 0 and below 1, got nan"),
        ((torch.ones(3).long(), 0.5, 0), r"dropout: x must hold floating point numbers, got "),
        ((torch.ones(1).expand(2**31 + 1), 0.5, 0), r"dropout: x must hold at most 2\*\*31 elements, got 2147483649"),
    ],
    ids=["p is 1", "p is negative", "p is no number", "integers", "too many elements"],
)
def test_a_wrong_argument_is_named(variant, arguments, message, load):
    with pytest.raises(ValueError, match=message):
        load("dropout", variant)(*arguments)


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1, 0.5, None], ids=str)
@pytest.mark.parametrize("variant", ["python", "python_mask", "fused", "triton"])
def test_a_seed_is_an_integer_of_64_bits(variant, seed, load):
    with pytest.raises(ValueError, match=r"dropout: seed must be an integer of 64 bits, got "):
        load("dropout", variant)(torch.ones(3), 0.5, seed)


@pytest.mark.parametrize("seed", [2**63, 0.5, None], ids=str)
@pytest.mark.parametrize("variant", ["cpp", "cpp_mask"])
def test_the_operators_schema_refuses_another_seed(variant, seed, load):
    with pytest.raises(RuntimeError, match=r"seed|Overflow"):
        load("dropout", variant)(torch.ones(3), 0.5, seed)
