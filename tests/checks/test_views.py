"""What shares memory with an output."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal


def one(dtype=torch.float64):
    return (normal(2, 3, dtype=dtype),)


def same(ctx, g):
    return g


def severities(forward, backward=same, reference=None, **intent):
    return [each.severity for each in findings("output-views", function(forward, backward), one, reference, **intent)]


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, x: x.detach(),
        lambda ctx, x: x.data,
        lambda ctx, x: torch.from_numpy(x.detach().numpy()),
        lambda ctx, x: torch.from_numpy(x.detach().numpy().reshape(2, 3)),
    ],
)
def test_an_alias_that_autograd_does_not_know_is_an_error(forward):
    assert severities(forward) == ["error"]


@pytest.mark.parametrize("forward", [lambda ctx, x: x, lambda ctx, x: x.view_as(x)])
def test_an_identity_is_only_told(forward):
    """A gradient reversal: writing to its output raises a clear error."""
    assert severities(forward, lambda ctx, g: -g) == ["info"]
    assert severities(forward, lambda ctx, g: -g, surrogate=True) == ["info"]


def test_a_view_is_a_warning_unless_it_is_meant():
    def transpose(ctx, x):
        return x.t()

    def back(ctx, g):
        return g.t()

    assert severities(transpose, back) == ["warning"]
    assert severities(transpose, back, torch.t) == ["info"]
    assert not severities(transpose, back, views=(0,))


def test_one_memory_for_two_outputs_is_an_error():
    def forward(ctx, x):
        out = 2 * x
        return out, out.data

    found = findings("output-views", function(forward, lambda ctx, a, b: 2 * (a + b)), one)
    assert {each.where for each in found} == {"output 0", "output 1"}
    assert {each.severity for each in found} == {"error"}


@pytest.mark.parametrize(
    "forward",
    [
        lambda ctx, x: 2 * x,
        lambda ctx, x: (2 * x).t().t(),
        lambda ctx, x: (2 * x).sum().expand(2, 3),
        lambda ctx, x: x.clone(),
    ],
)
def test_an_output_of_its_own_is_right(forward):
    assert not severities(forward)


def test_parts_of_one_piece_of_memory_that_do_not_overlap_are_right():
    planted = function(lambda ctx, x: (2 * x).chunk(3, 1), lambda ctx, *g: 2 * torch.cat(g, 1))
    assert not findings("output-views", planted, one)


def test_a_declared_write_in_place_is_no_alias():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    assert not severities(forward, lambda ctx, g: 2 * g)
    assert not severities(forward, lambda ctx, g: 2 * g, mutates=(0,))


@pytest.mark.parametrize("composition", [lambda x: x.t(), lambda x: x[:, 1:], lambda x: x * 2])
def test_pytorchs_own_views_are_right(composition):
    assert not findings("output-views", composition, one)


def test_an_output_buffer_used_for_every_call_is_found():
    buffer = torch.zeros(2, 3, dtype=torch.float64)

    def forward(ctx, x):
        return torch.mul(x, 2, out=buffer)

    def random(seed=0):
        return (torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_(),)

    found = findings("output-views", function(forward, lambda ctx, g: 2 * g), random)
    assert "second call overwrites" in found[0].message


@pytest.mark.parametrize("name", ["ok_01_straight_through", "ok_04_hands_on_grad_output", "ok_34_mark_dirty"])
def test_the_right_twins_pass(name):
    assert not of_fault(name, ["output-views"])
