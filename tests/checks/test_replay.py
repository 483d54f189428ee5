"""One graph can be differentiated again, and its backward changes nothing."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

RULES = ("retain-graph", "impure-backward")


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def square(backward):
    return function(lambda ctx, x: ctx.save_for_backward(x) or x.square(), backward)


def right(ctx, g):
    return 2 * g * ctx.saved_tensors[0]


@pytest.mark.parametrize("rule_id", RULES)
@pytest.mark.parametrize("given", [square(right), torch.exp, lambda x: x.exp().sin()])
def test_a_pure_backward_passes(rule_id, given):
    assert not findings(rule_id, given, one)


def test_a_graph_recorded_anew_by_each_backward_passes():
    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(x.square(), x, g)[0]

    assert not any(findings(rule_id, square(backward), one) for rule_id in RULES)


def test_an_attribute_deleted_by_the_backward_is_missed_by_the_second():
    def backward(ctx, g):
        k = ctx.k
        del ctx.k
        return k * g

    planted = function(lambda ctx, x: setattr(ctx, "k", 2.0) or 2 * x, backward)
    (found,) = findings("retain-graph", planted, one)
    assert (found.severity, found.observed) == ("error", "AttributeError")
    assert outcome("impure-backward", planted, one).status == "n/a"


def test_a_stash_popped_by_the_backward_is_missed_by_the_second():
    stash = {}
    planted = function(
        lambda ctx, x: stash.update({id(ctx): x}) or x.square(), lambda ctx, g: 2 * g * stash.pop(id(ctx))
    )
    assert "raises KeyError" in messages("retain-graph", planted, one)[0]


def test_only_the_third_backward_may_fail():
    def backward(ctx, g):
        ctx.left = getattr(ctx, "left", 2) - 1
        if ctx.left < 0:
            raise RuntimeError("used up")
        return right(ctx, g)

    assert "the last backward raises RuntimeError" in messages("retain-graph", square(backward), one)[0]


def test_a_counter_on_ctx_makes_the_second_backward_another():
    def backward(ctx, g):
        ctx.n = getattr(ctx, "n", 0) + 1
        return ctx.n * right(ctx, g)

    planted = square(backward)
    (found,) = findings("retain-graph", planted, one)
    assert found.where == "gradient of input 0"
    assert findings("impure-backward", planted, one)


def test_an_accumulator_on_ctx_is_impure():
    def backward(ctx, g):
        ctx.total = getattr(ctx, "total", 0) + right(ctx, g)
        return ctx.total

    assert findings("impure-backward", square(backward), one)


def test_gradients_that_differ_by_rounding_are_a_warning():
    def backward(ctx, g):
        ctx.n = getattr(ctx, "n", 0) + 1
        return right(ctx, g) * (1 + ctx.n * 2.0**-52)

    (found,) = findings("impure-backward", square(backward), one)
    assert found.severity == "warning"
    assert not findings("retain-graph", square(backward), one)


def test_a_write_into_grad_output_does_not_make_a_retained_graph_wrong():
    assert not findings("retain-graph", square(lambda ctx, g: g.mul_(2) * ctx.saved_tensors[0]), one)


def test_a_write_into_grad_output_is_named_even_where_the_values_stay():
    def backward(ctx, g):
        return g.mul_(1) * 2 * ctx.saved_tensors[0]

    (found,) = findings("impure-backward", square(backward), one)
    assert "grad_output 0" in found.message


def test_a_write_into_a_saved_input_is_named():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        x.detach().numpy()[...] *= 2
        return g * x

    assert "input 0" in messages("impure-backward", square(backward), one)[0]


@pytest.mark.parametrize(
    ("name", "rule_id"),
    [
        ("06_backward_clobbers_saved", "impure-backward"),
        ("26_cache_cleared", "retain-graph"),
        ("27_inner_graph_freed", "retain-graph"),
    ],
)
def test_a_fault_of_the_field_is_found(name, rule_id):
    assert any(found.severity == "error" for found in of_fault(name, {rule_id}))
