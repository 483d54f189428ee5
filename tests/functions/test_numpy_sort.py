import pytest
import torch
from truth import assert_matches, evaluate, truth

from autofn import registry
from autofn.functions.numpy_sort.inputs import index_dtype
from autofn.functions.numpy_sort.python import NumpySort

SPEC = registry.spec("numpy_sort")
VARIANTS = [variant.name for variant in registry.variants("numpy_sort")]
INF, NAN = float("inf"), float("nan")


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_elements_keep_their_order_and_nan_comes_last(variant, load):
    x = torch.tensor([2.0, NAN, 0.0, 2.0, -0.0, INF, 2.0, -INF], requires_grad=True)

    y = load("numpy_sort", variant)(x, -1)
    (grad,) = torch.autograd.grad(y, x, torch.arange(8.0))

    assert y[:7].tolist() == [-INF, 0, 0, 2, 2, 2, INF]
    assert y[7].isnan()
    assert grad.tolist() == [3, 7, 1, 4, 2, 6, 5, 0]


@pytest.mark.parametrize(
    ("shape", "dim"), [((7,), 0), ((5, 7), 0), ((3, 4, 5), 1), ((3, 4, 5), -3), ((5, 1), 1)], ids=str
)
def test_any_dimension_may_be_sorted(shape, dim, load):
    inputs, grads = (normal(*shape), dim), (normal(*shape).detach() + 1,)

    got = evaluate(SPEC, load("numpy_sort", "python"), inputs, grads)

    assert_matches(SPEC, got, truth(SPEC, inputs, grads), torch.float32)


@pytest.mark.parametrize("shape", [(5, 0), (0, 5)], ids=str)
def test_nothing_is_sorted_into_nothing(shape, load):
    x = normal(*shape)
    y = load("numpy_sort", "python")(x, 1)
    assert y.shape == torch.autograd.grad(y.sum(), x)[0].shape == shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_with_many_equal_elements_are_sorted_as_pytorch_does(dtype, load):
    inputs, grads = (normal(4, 1000, dtype=dtype), 1), (normal(4, 1000, dtype=dtype).detach(),)

    got = evaluate(SPEC, load("numpy_sort", "python"), inputs, grads)
    want = evaluate(SPEC, SPEC.reference, inputs, grads)

    assert torch.equal(got[0][0], want[0][0])
    assert torch.equal(got[1][0], want[1][0])


@pytest.mark.parametrize(
    ("length", "dtype"),
    [
        (1, torch.uint8),
        (2**8, torch.uint8),
        (2**8 + 1, torch.uint16),
        (2**16, torch.uint16),
        (2**16 + 1, torch.int32),
        (2**31, torch.int32),
        (2**31 + 1, torch.int64),
    ],
)
def test_a_permutation_is_kept_in_the_smallest_integers(length, dtype):
    assert index_dtype(length) == dtype


@pytest.mark.parametrize("length", [2**8, 2**8 + 1, 2**16, 2**16 + 1])
def test_the_last_index_of_a_type_is_no_other_one(length, load):
    x = torch.arange(length, 0, -1, dtype=torch.float32).requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = load("numpy_sort", "python")(x)

    (grad,) = torch.autograd.grad(y, x, torch.arange(length, dtype=torch.float32))

    assert [t.dtype for t in saved] == [index_dtype(length)]
    assert torch.equal(grad, torch.arange(length - 1, -1, -1, dtype=torch.float32))


def test_the_permutation_is_an_output_without_a_gradient():
    x = normal(3, 5)
    values, permutation = NumpySort.apply(x, 1)
    assert torch.equal(values, x.gather(1, permutation.long()))
    assert (values.requires_grad, permutation.requires_grad) == (True, False)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("batched", [0, 1, 2])
def test_vmap_sorts_every_sample_along_its_own_dimension(batched, dim, load):
    apply, x = load("numpy_sort", "python"), normal(3, 4, 5).detach()
    weights = normal(*x.select(batched, 0).shape).detach() + 1

    def loss(sample):
        return (apply(sample, dim) * weights).sum()

    samples = x.unbind(batched)
    values = torch.vmap(lambda sample: apply(sample, dim), in_dims=batched)(x)
    grads = torch.vmap(torch.func.grad(loss), in_dims=batched)(x)

    assert torch.equal(values, torch.stack([sample.sort(dim).values for sample in samples]))
    assert torch.equal(grads, torch.stack([torch.func.grad(loss)(sample) for sample in samples]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((normal(2, 3), 2), r"dim must be a dimension of x, which has 2, got 2"),
        ((normal(2, 3), -3), r"dim must be a dimension of x, which has 2, got -3"),
        ((torch.tensor(1.0), 0), r"dim must be a dimension of x, which has 0, got 0"),
        ((torch.ones(2, dtype=torch.int64), 0), r"x must hold floating point numbers, got "),
        ((torch.ones(2, device="meta"), 0), r"x must be on the CPU, where NumPy is, got meta; use torch.sort"),
    ],
)
def test_a_wrong_argument_is_named(given, message, load):
    with pytest.raises(ValueError, match=f"numpy_sort: {message}"):
        load("numpy_sort", "python")(*given)


@pytest.mark.parametrize(("variant", "reason"), [("cpp", "not PyTorch's"), ("native", "already PyTorch's operator")])
def test_what_is_not_there_has_a_reason(variant, reason):
    with pytest.raises(LookupError, match=f"numpy_sort has no variant '{variant}': .*{reason}"):
        registry.variant("numpy_sort", variant)
