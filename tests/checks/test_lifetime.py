"""Memory goes with the last reference, with the backward, and does not grow."""

import functools
import itertools
import types

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

RULES = ("reference-cycle", "leak", "held-after-backward")


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def exp(keep, give=lambda ctx: ctx.saved_tensors[0]):
    def forward(ctx, x):
        y = x.exp()
        keep(ctx, x, y)
        return y

    return function(forward, lambda ctx, g: g * give(ctx))


def saved(ctx, x, y):
    ctx.save_for_backward(y)


def saved_beside(**more):
    """The output saved properly, and ctx given a further attribute."""

    def keep(ctx, x, y):
        ctx.save_for_backward(y)
        for name, make in more.items():
            setattr(ctx, name, make(ctx, x, y))

    return keep


@pytest.mark.parametrize("rule_id", RULES)
def test_what_is_saved_properly_passes(rule_id):
    assert not findings(rule_id, exp(saved), one)


@pytest.mark.parametrize("rule_id", RULES)
def test_pytorchs_own_operations_pass(rule_id):
    assert not outcome(rule_id, lambda x: torch.softmax(x.exp() @ x, 0), one).findings


def test_the_output_on_ctx_is_a_cycle():
    (found,) = findings("reference-cycle", exp(saved_beside(out=lambda ctx, x, y: y)), one)
    assert (found.severity, found.where) == ("error", "ctx.out")


def test_the_output_in_a_closure_on_ctx_is_a_cycle():
    (found,) = findings("reference-cycle", exp(saved_beside(pull=lambda ctx, x, y: lambda: y)), one)
    assert "garbage collector" in found.message


def test_a_ctx_that_refers_to_itself_is_a_cycle():
    assert findings("reference-cycle", exp(saved_beside(me=lambda ctx, x, y: ctx)), one)


def test_a_bound_method_of_ctx_is_a_cycle():
    def bound(ctx, x, y):
        return types.MethodType(lambda self, g: g, ctx)

    assert findings("reference-cycle", exp(saved_beside(pull=bound)), one)


def test_a_cycle_made_only_in_the_backward_is_found():
    def give(ctx):
        ctx.me = ctx
        return ctx.saved_tensors[0]

    assert "after forward and backward" in messages("reference-cycle", exp(saved, give), one)[0]


def test_a_detached_output_on_ctx_is_no_cycle():
    assert not findings("reference-cycle", exp(saved_beside(out=lambda ctx, x, y: y.detach())), one)


def test_a_list_that_grows_with_each_call_is_a_leak():
    kept = []
    (found,) = findings("leak", exp(saved_beside(n=lambda ctx, x, y: kept.append(y.detach().clone()))), one)
    assert (found.severity, found.observed) == ("error", "200 bytes more after 5 calls")


def test_a_stash_emptied_by_the_backward_alone_leaks_where_it_never_runs():
    stash = {}

    def keep(ctx, x, y):
        ctx.key = object()
        stash[ctx.key] = y.clone()

    (found,) = findings("leak", exp(keep, lambda ctx: stash.pop(ctx.key)), one)
    assert "each forward without its backward" in found.message


def test_a_list_that_grows_with_each_backward_is_a_leak():
    kept = []

    def give(ctx):
        kept.append(ctx.saved_tensors[0] * 2)
        return ctx.saved_tensors[0]

    assert "each forward and backward" in messages("leak", exp(saved, give), one)[0]


def test_a_cache_for_each_shape_is_no_leak():
    table = functools.lru_cache(4)(lambda n: torch.ones(n, dtype=torch.float64))
    planted = function(lambda ctx, x: x * table(len(x)), lambda ctx, g: g * table(len(g)))
    assert not findings("leak", planted, one)


@pytest.mark.parametrize(("bound", "leaks"), [(100, False), (10_000, True)])
def test_a_cache_with_a_new_key_at_every_call_leaks_where_it_has_no_bound(bound, leaks):
    keys, cache = itertools.count(), {}

    def keep(ctx, x, y):
        ctx.save_for_backward(y)
        cache[next(keys)] = y.detach().clone()
        if len(cache) > bound:
            del cache[min(cache)]

    found = findings("leak", exp(keep), one)
    assert any(each.severity == "error" for each in found) == leaks


def test_the_last_calls_tensor_in_a_global_is_a_warning():
    last = {}
    (found,) = findings("leak", exp(saved_beside(n=lambda ctx, x, y: last.update(y=y.detach()))), one)
    assert (found.severity, found.observed) == ("warning", "1 tensor of shape [5]")


def test_a_gradient_accumulated_by_hand_is_no_leak():
    weight = normal(5)

    def give(ctx):
        weight.grad = torch.ones_like(weight)
        return ctx.saved_tensors[0]

    assert not findings("leak", exp(saved, give), one)


def test_a_mask_on_ctx_is_held_after_the_backward():
    (found,) = findings("held-after-backward", exp(saved_beside(mask=lambda ctx, x, y: y > 1)), one)
    assert (found.severity, found.where, found.observed) == ("error", "ctx.mask", "1 tensor of shape [5]")


def test_the_state_of_a_generator_and_what_leads_to_captured_weights_are_not_held():
    module = torch.nn.LSTM(5, 5, dtype=torch.float64)
    planted = exp(saved_beside(state=lambda ctx, x, y: torch.get_rng_state()))
    assert not findings("held-after-backward", planted, one)
    assert not findings("held-after-backward", lambda x: planted.apply(module(x[None])[0]), one)


def test_what_the_backward_drops_is_not_held():
    def give(ctx):
        y, ctx.y = ctx.y, None
        return y

    planted = exp(lambda ctx, x, y: setattr(ctx, "y", y.clone()), give)
    assert not findings("held-after-backward", planted, one)


def test_a_function_that_does_not_work_is_for_other_rules():
    planted = function(lambda ctx, x: x.exp(), lambda ctx, g: g + torch.ones(7))
    assert {outcome(rule_id, planted, one).status for rule_id in RULES} == {"n/a"}


@pytest.mark.parametrize(
    ("name", "rule_id"),
    [("21_output_on_ctx", "reference-cycle"), ("23_ctx_tensor_outlives_backward", "held-after-backward")],
)
def test_a_fault_of_the_field_is_found(name, rule_id):
    assert any(found.severity == "error" for found in of_fault(name, {rule_id}))
