"""One gradient an argument."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome


def pair(dtype=torch.float64):
    return normal(3, dtype=dtype), normal(3, dtype=dtype)


def scaled(dtype=torch.float64):
    return normal(3, dtype=dtype), 2.0


def scale(ctx, x, k):
    ctx.k = k
    return x * k


def product(ctx, a, b):
    ctx.save_for_backward(a, b)
    return a * b


def test_too_few_gradients_are_counted():
    planted = function(scale, lambda ctx, g: g * ctx.k)
    (found,) = findings("arity", planted, scaled)
    assert (found.severity, found.observed, found.expected) == ("error", "1", "2")
    assert "too few" in found.message


def test_too_many_gradients_are_counted():
    planted = function(scale, lambda ctx, g: (g * ctx.k, None, g))
    (found,) = findings("arity", planted, scaled)
    assert (found.severity, found.observed, found.expected) == ("error", "3", "2")


def test_a_trailing_none_that_the_engine_drops_is_only_told():
    planted = function(scale, lambda ctx, g: (g * ctx.k, None, None))
    assert [each.severity for each in findings("arity", planted, scaled)] == ["info"]


def test_a_gradient_for_a_number_is_named_with_its_place():
    planted = function(scale, lambda ctx, g: (g * ctx.k, g.sum()))
    (found,) = findings("arity", planted, scaled)
    assert found.where == "gradient 1 of Planted"
    assert "no tensor" in found.message


def test_a_gradient_that_is_a_number_is_named():
    planted = function(scale, lambda ctx, g: (1.0, None))
    assert "must be a tensor or None" in messages("arity", planted, scaled)[0]


def test_a_gradient_lost_only_where_an_input_is_frozen_is_counted():
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return (g * b, g * a) if ctx.needs_input_grad[1] else g * b

    assert "too few" in messages("arity", function(product, backward), pair)[0]


def test_a_none_for_an_argument_left_at_its_default_is_right():
    def forward(ctx, x, k, offset=0.0):
        return scale(ctx, x, k) + offset

    assert not findings("arity", function(forward, lambda ctx, g: (g * ctx.k, None, None)), scaled)


@pytest.mark.parametrize(
    "backward",
    [
        lambda ctx, g: (g * ctx.k, None),
        torch.autograd.function.once_differentiable(lambda ctx, g: (g * ctx.k, None)),
    ],
)
def test_one_gradient_an_argument_is_right(backward):
    assert not findings("arity", function(scale, backward), scaled)


def test_a_composition_has_no_arity():
    assert outcome("arity", lambda x, k: x * k, scaled).status == "n/a"


def test_none_for_a_needed_input_is_found_with_and_without_a_reference():
    planted = function(product, lambda ctx, g: (g * ctx.saved_tensors[1], None))
    for reference in (None, torch.mul):
        (found,) = findings("none-gradient", planted, pair, reference)
        assert found.where == "gradient of input 1"


def test_none_where_the_input_alone_requires_grad_is_found():
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        both = all(ctx.needs_input_grad)
        return (g * b if ctx.needs_input_grad[0] else None), (g * a if both else None)

    (found,) = findings("none-gradient", function(product, backward), pair)
    assert "no other input requires grad" in found.message


def test_an_output_that_is_cut_off_the_graph_is_found():
    assert messages("none-gradient", lambda a, b: a * b.detach(), pair)


@pytest.mark.parametrize(
    ("forward", "reference"),
    [
        (lambda ctx, a, b: a * 2, None),
        (lambda ctx, a, b: a * 2, lambda a, b: a * 2 + 0 * b),
        (lambda ctx, a, b: a * 2 + b.round(), None),
    ],
)
def test_none_for_an_input_without_influence_is_right(forward, reference):
    assert not findings("none-gradient", function(forward, lambda ctx, g: (2 * g, None)), pair, reference)


def test_none_is_not_judged_where_the_gradient_is_a_surrogate_of_nothing_known():
    planted = function(product, lambda ctx, g: (g, None))
    assert outcome("none-gradient", planted, pair, surrogate=True).status == "n/a"


def test_a_random_function_is_judged_with_its_draws_fixed():
    def forward(ctx, a, b):
        ctx.keep = (torch.rand_like(a) > 0.5).to(a.dtype)
        return a * ctx.keep

    planted = function(forward, lambda ctx, g: (g * ctx.keep, None))
    assert not findings("none-gradient", planted, pair, random=True)


def test_the_corpus_fault_is_found():
    assert [each.where for each in of_fault("41_none_for_needed_input", ["none-gradient"])] == ["gradient of input 1"]
