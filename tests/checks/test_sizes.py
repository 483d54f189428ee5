"""Other sizes, large ones, none, and shapes that broadcast."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome


def matrix(dtype=torch.float64):
    return (normal(6, 4, dtype=dtype),)


def saving(compute):
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return compute(*tensors)

    return forward


def square(backward):
    return function(saving(lambda x: x * x), lambda ctx, g: backward(2 * g * ctx.saved_tensors[0]))


def whole_blocks(block, dim=-1):
    """Keeps what is wrong below a block right: there the kernel has one, masked, block."""

    def backward(grad):
        size = grad.shape[dim]
        whole = size if size < block else size // block * block
        return torch.where(torch.arange(size).movedim(0, -1) < whole, grad.movedim(dim, -1), 0).movedim(-1, dim)

    return backward


SIZE_FAULTS = {
    "a last block of 32 columns is left out": whole_blocks(32),
    "a last block of 128 rows is left out": whole_blocks(128, 0),
    "more than 1024 columns are left out": lambda grad: torch.where(torch.arange(grad.shape[-1]) < 1024, grad, 0),
    "a grid of 65,535 rows": lambda grad: torch.where(torch.arange(grad.shape[0]) < 65_535, grad.mT, 0).mT,
    "one row": lambda grad: grad * (grad.shape[0] > 1),
    "an odd size": lambda grad: grad if grad.shape[-1] % 2 == 0 else grad.roll(1, -1),
}


@pytest.mark.parametrize("reference", [None, lambda x: x * x], ids=["forward", "reference"])
@pytest.mark.parametrize("fault", SIZE_FAULTS)
def test_a_gradient_wrong_at_some_sizes_is_found(fault, reference):
    if reference is None and fault == "a grid of 65,535 rows":
        pytest.skip("two wrong rows of 65,537: differences of a few elements need not meet them")
    found = findings("other-sizes", square(SIZE_FAULTS[fault]), matrix, reference)
    assert found
    assert "size" in found[0].message


def test_a_gradient_right_at_every_size_passes():
    right = square(lambda grad: grad)
    for reference in (None, lambda x: x * x):
        assert not findings("other-sizes", right, matrix, reference)
        assert not findings("zero-size", right, matrix, reference)
        assert not findings("zero-dim", right, matrix, reference)


def test_a_forward_wrong_at_some_sizes_is_found():
    (found,) = findings("other-sizes", lambda x: x * (x.shape[-1] < 200), matrix, lambda x: x * 1)
    assert found.where == "output 0"


def column(dtype=torch.float64):
    return (normal(6, 1, dtype=dtype),)


def row(dtype=torch.float64):
    return (normal(1, 4, dtype=dtype),)


def test_a_column_stays_one_and_a_batch_of_one_does_not():
    first_column = square(lambda grad: torch.where(torch.arange(grad.shape[-1]) < 1, grad, 0))
    first_row = square(lambda grad: torch.where(torch.arange(grad.shape[0])[:, None] < 1, grad, 0))
    for reference in (None, lambda x: x * x):
        assert not findings("other-sizes", first_column, column, reference)
        assert findings("other-sizes", first_row, row, reference)


def test_sizes_that_the_forward_refuses_are_not_judged():
    def forward(ctx, x):
        if x.shape != (6, 4):
            raise ValueError("x must be (6, 4)")
        return x * 2

    assert outcome("other-sizes", function(forward, lambda ctx, g: 2 * g), matrix, lambda x: x * 2).status == "n/a"


def test_a_number_that_is_a_size_follows_it():
    def table(dtype=torch.float64):
        return torch.tensor([0, 2, 1, 2]), normal(4, 3, dtype=dtype), 5

    def scattered(index, values, rows):
        return values.new_zeros(rows, values.shape[1]).index_add(0, index, values)

    def forward(ctx, index, values, rows):
        ctx.save_for_backward(index)
        return scattered(index, values, rows)

    right = function(forward, lambda ctx, g: (None, g[ctx.saved_tensors[0]], None))
    assert not findings("other-sizes", right, table, scattered)


def test_what_other_elements_explain_is_not_blamed_on_the_size():
    assert not of_fault("08_duplicate_indices", {"other-sizes"})
    assert not of_fault("15_assumes_normalised", {"other-sizes", "broadcasting", "special-values"})


def test_offsets_that_wrap_are_found():
    assert of_fault("10_offset_overflow", {"other-sizes"})


@pytest.mark.slow
def test_offsets_that_wrap_beyond_a_hundred_thousand_are_found():
    wrapped = square(lambda grad: grad.reshape(-1)[torch.arange(grad.numel()) & 0x3FFFF].reshape(grad.shape))
    assert not findings(
        "other-sizes", wrapped, lambda dtype=torch.float64: (normal(2, 2, dtype=dtype),), lambda x: x * x
    )
    assert findings("large-sizes", wrapped, matrix, lambda x: x * x)
    assert not findings("large-sizes", square(lambda grad: grad), matrix, lambda x: x * x)


EMPTY_FAULTS = {
    "a guessed dimension": lambda grad: grad.reshape(grad.shape[0], -1).reshape(grad.shape),
    "a division by the rows": lambda grad: grad / grad.shape[0] * grad.shape[0] if 1 / grad.shape[0] else grad,
    "the first element": lambda grad: grad + 0 * grad.reshape(-1)[0],
    "a largest element": lambda grad: grad + 0 * grad.max(),
}


@pytest.mark.parametrize("fault", EMPTY_FAULTS)
def test_a_backward_that_fails_on_an_empty_batch_is_found(fault):
    for reference in (None, lambda x: x * x):
        found = findings("zero-size", square(EMPTY_FAULTS[fault]), matrix, reference)
        assert found
        assert "size 0" in found[0].message


def test_an_empty_sum_that_is_not_a_number_is_nobodys_fault():
    mean = function(saving(lambda x: x.mean(0)), lambda ctx, g: (g / ctx.saved_tensors[0].shape[0]).expand(6, 4))
    assert outcome("zero-size", mean, matrix, lambda x: x.mean(0)).status != "failed"


ROW_FAULTS = {
    "its last dimension": lambda grad: grad * (grad.shape[-1] > 0),
    "an index": lambda grad: torch.cat([grad[:1], grad[1:]]),
    "a transposition": lambda grad: grad.T.contiguous().T if grad.dim() == 2 else grad[None][:, 0],
}


@pytest.mark.parametrize("fault", ROW_FAULTS)
def test_an_elementwise_backward_that_needs_a_dimension_is_found(fault):
    for reference in (None, lambda x: x * x):
        assert findings("zero-dim", square(ROW_FAULTS[fault]), matrix, reference)


def test_a_row_function_need_not_accept_scalars():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g[:, None]

    norm = function(saving(lambda x: x.square().sum(-1)), backward)
    assert outcome("zero-dim", norm, matrix, lambda x: x.square().sum(-1)).status == "n/a"


def pair(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), normal(4, dtype=dtype)


def product(reduced):
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b if a.shape == g.shape else reduced(g * b, a), g * a if b.shape == g.shape else reduced(g * a, b)

    return function(saving(lambda a, b: a * b), backward)


def test_a_broadcast_gradient_is_summed():
    def same(dtype=torch.float64):
        return normal(3, 4, dtype=dtype), normal(4, 3, dtype=dtype).detach().mT.contiguous().requires_grad_()

    for reference in (None, lambda a, b: a * b):
        assert not findings("broadcasting", product(lambda grad, like: grad.sum_to_size(like.shape)), same, reference)
        assert not findings("broadcasting", product(lambda grad, like: grad), same, reference)  # the engine sums
        first = product(lambda grad, like: grad.reshape(-1)[: like.numel()].reshape(like.shape))
        assert findings("broadcasting", first, same, reference)


def test_a_reduction_says_nothing_of_broadcasting():
    dot = function(
        saving(lambda a, b: (a * b).sum(-1)),
        lambda ctx, g: (g[:, None] * ctx.saved_tensors[1], g @ ctx.saved_tensors[0]),
    )
    assert outcome("broadcasting", dot, pair, lambda a, b: (a * b).sum(-1)).status == "n/a"


def test_an_empty_batch_of_the_corpus_is_found():
    assert of_fault("50_empty_batch", {"zero-size"})
