"""Random numbers: fixed by the seed, and the same in both directions."""

import random
import time

import numpy
import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal

from autofn.checks.tools.passes import keeping_the_generators, reseed

RULES = ("determinism", "randomness")


def one(dtype=torch.float64):
    return (normal(64, dtype=dtype),)


def seeded_and_raising():
    reseed(5)
    raise ZeroDivisionError


def test_the_generators_are_as_before_where_something_raises_too():
    before = torch.get_rng_state(), random.getstate(), str(numpy.random.get_state())
    with pytest.raises(ZeroDivisionError), keeping_the_generators():
        seeded_and_raising()
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), str(numpy.random.get_state()))


def dropout(draw, again):
    """A mask that the forward draws and the backward gets by `again(ctx, g)`."""

    def forward(ctx, x):
        mask = draw(ctx, x)
        return x * mask

    return function(forward, lambda ctx, g: g * again(ctx, g))


def drawn(ctx, x):
    mask = (torch.rand_like(x) > 0.5).to(x.dtype)
    ctx.save_for_backward(mask)
    return mask


def saved(ctx, g):
    return ctx.saved_tensors[0]


@pytest.mark.parametrize("rule_id", RULES)
def test_a_saved_mask_passes(rule_id):
    assert not findings(rule_id, dropout(drawn, saved), one, random=True)


def test_a_mask_drawn_again_from_the_same_state_passes():
    def draw(ctx, x):
        ctx.state = torch.get_rng_state()
        return (torch.rand_like(x) > 0.5).to(x.dtype)

    def again(ctx, g):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            return (torch.rand_like(g) > 0.5).to(g.dtype)

    assert not any(findings(rule_id, dropout(draw, again), one, random=True) for rule_id in RULES)


@pytest.mark.parametrize("rule_id", RULES)
@pytest.mark.parametrize("given", [torch.exp, lambda x: torch.nn.functional.dropout(x)])
def test_pytorchs_own_operations_pass(rule_id, given):
    assert not [each for each in findings(rule_id, given, one) if each.severity != "info"]


def test_a_mask_drawn_again_is_another():
    def again(ctx, g):
        return (torch.rand_like(g) > 0.5).to(g.dtype)

    (found,) = findings("randomness", dropout(drawn, again), one)
    assert (found.severity, found.where) == ("error", "gradient of input 0")


def test_a_wrong_mask_that_the_generator_does_not_move_is_found_by_differences():
    def again(ctx, g):
        generator = torch.Generator().manual_seed(1)
        return (torch.rand(g.shape, generator=generator) > 0.5).to(g.dtype)

    assert "not the derivative" in messages("randomness", dropout(drawn, again), one, random=True)[0]


def test_a_state_restored_after_a_draw_too_many_is_found():
    def draw(ctx, x):
        mask = (torch.rand_like(x) > 0.5).to(x.dtype)
        ctx.state = torch.get_rng_state()
        return mask

    def again(ctx, g):
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.state)
            return (torch.rand_like(g) > 0.5).to(g.dtype)

    assert findings("randomness", dropout(draw, again), one, random=True)


def test_a_declared_surrogate_is_not_held_against_differences():
    planted = function(lambda ctx, x: (x + torch.rand_like(x)).round(), lambda ctx, g: g)
    assert not findings("randomness", planted, one, random=True, surrogate=True)
    assert findings("randomness", planted, one, random=True)


def test_noise_in_the_backward_alone_is_found():
    planted = function(lambda ctx, x: x * 1, lambda ctx, g: g + 1e-3 * torch.randn_like(g))
    assert "draws other numbers" in messages("randomness", planted, one)[0]


@pytest.mark.parametrize(("declared", "severity"), [(True, "error"), (False, "warning")])
def test_a_state_restored_after_the_forward_repeats_the_mask(declared, severity):
    def draw(ctx, x):
        with torch.random.fork_rng(devices=[]):
            return drawn(ctx, x)

    found = findings("randomness", dropout(draw, saved), one, random=declared)
    assert [(each.severity, each.observed) for each in found] == [(severity, "the same outputs")]


def test_a_generator_seeded_in_each_forward_repeats_the_mask():
    def draw(ctx, x):
        mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).to(x.dtype)
        ctx.save_for_backward(mask)
        return mask

    assert "two calls in a row" in messages("randomness", dropout(draw, saved), one, random=True)[0]
    assert not findings("randomness", dropout(draw, saved), one)


def test_an_undeclared_random_function_is_told():
    assert [each.severity for each in findings("determinism", dropout(drawn, saved), one)] == ["info"]
    reference = torch.nn.functional.dropout
    assert not findings("determinism", dropout(drawn, saved), one, reference)


@pytest.mark.parametrize("count", [iter(range(1, 1000)).__next__, time.perf_counter])
def test_what_the_seed_does_not_fix_is_found(count):
    planted = function(lambda ctx, x: x * count(), lambda ctx, g: g)
    (found,) = findings("determinism", planted, one)
    assert found.where == "output 0"


def test_a_gradient_that_the_seed_does_not_fix_is_found():
    count = iter(range(1, 1000)).__next__
    planted = function(lambda ctx, x: x * 1, lambda ctx, g: g * count())
    (found,) = findings("determinism", planted, one)
    assert found.where == "gradient of input 0"


@pytest.mark.parametrize("draw", [random.random, numpy.random.random])
def test_another_generator_is_found(draw):
    def kept(ctx, x):
        ctx.k = draw()
        return ctx.k

    found = findings("determinism", dropout(kept, lambda ctx, g: ctx.k), one, random=True)
    assert [(each.severity, each.where) for each in found] == [("error", "output 0")]


def test_uninitialised_memory_is_found():
    def backward(ctx, g):
        grad = torch.empty_like(g)
        grad[1:] = g[1:]
        return grad

    found = messages("determinism", function(lambda ctx, x: x * 1, backward), one)
    assert any("uninitialised" in message or "differ" in message for message in found)


def test_memory_that_is_written_before_it_is_read_passes():
    def forward(ctx, x):
        return torch.mul(x, 2, out=torch.empty_like(x))

    assert not findings("determinism", function(forward, lambda ctx, g: torch.empty_like(g).copy_(2 * g)), one)


def test_the_fault_of_the_field_is_found():
    assert any(found.severity == "error" for found in of_fault("48_recompute_without_rng", {"randomness"}))
