"""A case gives every variant the same values, flags and grad_outputs."""

from __future__ import annotations

import pytest
import torch
from support import case_of, make_spec, square

from autofn import registry
from autofn.case import Key, as_tuple, exact_inputs, prepare


def tensors(values):
    return [t for t in values if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize("name", registry.names())
def test_every_variant_gets_the_same_values_flags_and_grad_outputs(name):
    spec = registry.spec(name)
    for dtype in spec.dtypes:
        first, *others = (
            prepare(spec, Key(name, found.name, "tiny", dtype, "cpu"), square) for found in registry.variants(name)
        )
        assert first.leaves
        for case in others:
            for mine, theirs in zip(
                [*tensors(case.inputs), *case.grad_outputs], [*tensors(first.inputs), *first.grad_outputs], strict=True
            ):
                assert mine is not theirs
                assert torch.equal(mine, theirs)
                assert (mine.requires_grad, mine.dtype) == (theirs.requires_grad, theirs.dtype)


def test_another_seed_workload_or_dtype_gives_other_grad_outputs():
    spec = make_spec()
    key = Key("square", "eager", "tiny", "float32", "cpu")
    grads = [
        prepare(spec, key, square, seed).grad_outputs[0][:6] for seed in (0, 1)
    ] + [
        prepare(spec, Key("square", "eager", "small", "float32", "cpu"), square).grad_outputs[0][:6],
        prepare(spec, Key("square", "eager", "tiny", "float64", "cpu"), square).grad_outputs[0][:6].float(),
    ]  # fmt: skip
    for i, mine in enumerate(grads):
        assert not any(torch.allclose(mine, other) for other in grads[:i])


def test_the_grad_outputs_have_the_shape_and_dtype_of_the_outputs_and_are_not_constant():
    def two(x):
        return x.double().outer(x.double()), x.sum()

    case = case_of(spec=make_spec(reference=two))
    assert [(tuple(g.shape), g.dtype) for g in case.grad_outputs] == [((6, 6), torch.float64), ((), torch.float32)]
    assert case.grad_outputs[0].std() > 0.1
    assert not any(g.requires_grad for g in case.grad_outputs)


def test_preparing_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    case_of()
    assert torch.equal(torch.get_rng_state(), before)


def test_backward_gives_the_gradient_of_each_leaf_and_none_where_there_is_none():
    spec = make_spec(
        make_inputs=lambda n, *, dtype, device, seed: (
            torch.arange(n, dtype=dtype).requires_grad_(), 3, torch.ones(n, dtype=dtype).requires_grad_()
        ),
        reference=lambda x, power, unused: x**power,
    )  # fmt: skip
    case = case_of(spec=spec)
    grad, none = case.backward(case.forward())
    assert none is None
    torch.testing.assert_close(grad, 3 * case.inputs[0].detach() ** 2 * case.grad_outputs[0])
    assert case.inputs[0].grad is None


def test_backward_keeps_the_graph_only_when_asked():
    case = case_of()
    outputs = case.forward()
    (grad,) = case.backward(outputs, create_graph=True)
    assert grad.requires_grad
    (grad,) = case.backward(outputs)
    assert not grad.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        case.backward(outputs)


def test_an_unknown_workload_is_an_error_that_lists_the_others():
    with pytest.raises(LookupError, match="square has no workload 'huge'; it has tiny, small, large"):
        case_of(workload="huge")


@pytest.mark.parametrize(("dtype", "words"), [("bfloat16", "square has no dtype bfloat16"), ("int33", "'int33'")])
def test_an_unknown_dtype_is_an_error(dtype, words):
    with pytest.raises(LookupError, match=words):
        case_of(dtype=dtype)


def test_the_reference_that_shapes_the_grad_outputs_dirties_no_input():
    def double_in_place(x):
        return x.mul_(2)

    spec = make_spec(
        reference=double_in_place, mutates=(0,), make_inputs=lambda n, *, dtype, device, seed: (torch.ones(n),)
    )
    assert case_of(spec=spec).inputs[0].tolist() == [1.0] * 6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exact_inputs_are_leaves_in_float64_with_memory_of_their_own(dtype):
    x = torch.ones(3, dtype=dtype, requires_grad=True)
    flags = torch.ones(3, dtype=torch.int64)
    exact, same, number = exact_inputs((x, flags, 2.5))
    assert exact.dtype == torch.float64
    assert exact.is_leaf
    assert exact.requires_grad
    with torch.no_grad():
        exact.zero_()
    assert x.tolist() == [1.0] * 3
    assert same is flags
    assert number == 2.5


def test_outputs_are_always_a_tuple():
    x = torch.ones(1)
    assert as_tuple(x) == (x,)
    assert as_tuple((x, x)) == (x, x)
    assert as_tuple([x, x]) == (x, x)


def test_a_key_reads_like_its_case():
    assert str(Key("square", "cpp", "small", "float32", "cpu")) == "square-cpp-small-float32-cpu"
