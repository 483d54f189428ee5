"""The ledger of saved tensors, on Functions that save a known number of bytes."""

from __future__ import annotations

import pytest
import torch
from support import case_of, make_spec

from autofn.observe.saved import ledger, saved_bytes, saved_new_bytes


def inputs(n, *, dtype, device, seed=0):
    return (torch.ones(n, n, dtype=dtype).requires_grad_(),)


def saving(choose):
    """y = 2 * x, with what `choose(x, y)` gives saved for the backward; so many bytes and no more."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = 2 * x
            ctx.save_for_backward(*choose(x, y))
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * grad_output

    case = case_of(Planted.apply, make_spec(reference=lambda x: 2 * x, make_inputs=inputs))
    return ledger(case)


def labels(entries):
    return [(entry.alias, entry.bytes) for entry in entries]


X = 6 * 6 * 4  # the bytes of x and of y


def test_nothing_saved_is_nothing():
    assert saving(lambda x, y: ()) == []


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64, torch.complex64])
def test_a_new_tensor_costs_exactly_its_bytes(count, dtype):
    entries = saving(lambda x, y: [torch.zeros(count, dtype=dtype)])
    assert labels(entries) == [("new", count * dtype.itemsize)]
    assert (entries[0].shape, entries[0].dtype) == ((count,), str(dtype).removeprefix("torch."))
    assert saved_bytes(entries) == saved_new_bytes(entries) == count * dtype.itemsize


def test_what_is_an_input_or_an_output_anyway_is_labelled_and_not_new():
    entries = saving(lambda x, y: [x, y, torch.zeros(5)])
    assert labels(entries) == [("input 0", X), ("output 0", X), ("new", 20)]
    assert saved_bytes(entries) == 2 * X + 20
    assert saved_new_bytes(entries) == 20


def test_a_storage_saved_twice_counts_once_where_it_came_first():
    def choose(x, y):
        new = torch.zeros(5)
        return [new, y, new, new.view(5, 1)]

    assert labels(saving(choose)) == [("new", 20), ("output 0", X)]


def test_a_view_holds_the_whole_storage_of_its_base():
    entries = saving(lambda x, y: [x[0, :2], y.t(), torch.zeros(100)[:1], torch.zeros(1).expand(50)])
    assert labels(entries) == [("input 0", X), ("output 0", X), ("new", 400), ("new", 4)]
    assert entries[2].shape == (1,)


def test_two_equal_tensors_are_two_storages():
    assert labels(saving(lambda x, y: [torch.zeros(5), torch.zeros(5)])) == [("new", 20), ("new", 20)]


def test_empty_tensors_alias_nothing_and_cost_nothing():
    entries = saving(lambda x, y: [torch.zeros(0), x])
    assert labels(entries) == [("new", 0), ("input 0", X)]


def test_each_input_and_each_output_has_its_number():
    def two(x, number, w):
        return x * w, x.exp()

    def more(n, *, dtype, device, seed=0):
        return (*inputs(n, dtype=dtype, device=device), 3, torch.ones(n, n, dtype=dtype).requires_grad_())

    entries = ledger(case_of(spec=make_spec(reference=two, make_inputs=more)))
    assert sorted(entry.alias for entry in entries) == ["input 0", "input 2", "output 1"]


def test_the_chain_of_a_formula_is_counted_step_by_step():
    # sigmoid saves its output (new here), the product both of its factors, exp its output.
    spec = make_spec(reference=lambda x: (x * torch.sigmoid(x)).exp(), make_inputs=inputs)
    assert sorted(labels(ledger(case_of(spec=spec)))) == [("input 0", X), ("new", X), ("output 0", X)]


def test_looking_leaves_the_case_as_it_was():
    case = case_of(spec=make_spec(make_inputs=inputs))
    before = case.inputs[0].detach().clone()
    ledger(case)
    assert torch.equal(case.inputs[0], before)
    assert case.inputs[0].grad is None


def test_a_constant_that_was_there_before_is_older_and_not_new():
    constant = torch.zeros(9)
    entries = saving(lambda x, y: [constant, torch.zeros(5)])
    assert labels(entries) == [("older", 36), ("new", 20)]
    assert saved_new_bytes(entries) == 20
