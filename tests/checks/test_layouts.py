"""Layouts: a Function that reads memory by anything but its strides is caught; one that packs or strides is not."""

from __future__ import annotations

import faulty
import numpy as np
import pytest
import torch

from autofn.checks.intent import Intent
from autofn.checks.layouts import RULES
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable

BY_ID = {rule.id: rule for rule in RULES}


def function(forward, backward, save=lambda *inputs: inputs):
    """A Function: forward(*inputs), backward(grad_output, *saved)."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*save(*inputs))
            return forward(*inputs)

        @staticmethod
        def backward(ctx, *grad_outputs):
            return backward(*grad_outputs, *ctx.saved_tensors)

    return Planted


def matrix(dtype=torch.float64):
    return (torch.randn(3, 4, dtype=dtype).requires_grad_(),)


def image(dtype=torch.float64):
    return (torch.randn(2, 3, 4, 5, dtype=dtype).requires_grad_(),)


def in_corpus(name, rule):
    """What a rule finds in tests/faults/<name>.py."""
    return judge(Job(BY_ID[rule], lambda: faulty.subject(name))).findings


def outcome(rule, given, make=matrix, reference=torch.sin, **intent):
    subject = of_callable(given, make, reference=reference, intent=Intent(**intent))
    return judge(Job(BY_ID[rule], lambda: subject))


def flat(t):
    """The memory of a tensor read as if it were packed."""
    return torch.as_strided(t, (t.numel(),), (1,), t.storage_offset()).reshape(t.shape)


def raises(t):
    raise ValueError(f"sin: x must be contiguous, got strides {t.stride()}")


def asserts(t):
    assert t.is_contiguous()
    return t.sin()


def first_row_storage(g):
    """Ignores the storage offset: numpy's view of the whole storage."""
    whole = torch.empty(0, dtype=g.dtype).set_(g.untyped_storage())
    return whole[: g.numel()].reshape(g.shape)


def channels_last_as_rows(g):
    """Right for packed and transposed memory; channels last is taken for packed."""
    if g.dim() == 4 and g.is_contiguous(memory_format=torch.channels_last):
        return flat(g)
    return g


WRONG_GRADS = {
    "as_strided": lambda g, x: flat(g) * x.cos(),
    "no storage offset": lambda g, x: first_row_storage(g) * x.cos(),
    "view": lambda g, x: (g.view(-1) * x.cos().reshape(-1)).view(x.shape),
    "in place": lambda g, x: g.mul_(x.cos()),
    "one stride": lambda g, x: torch.as_strided(g, g.shape, (g.stride(0), 1), g.storage_offset()) * x.cos(),
    "asks for packed": lambda g, x: g * x.cos() if g.is_contiguous() else raises(g),
    "numbers of stride 0 once": lambda g, x: (g if 0 not in g.stride() else g / g.numel()) * x.cos(),
}
RIGHT_GRADS = {
    "strides": lambda g, x: g * x.cos(),
    "packs": lambda g, x: flat(g.contiguous()) * x.cos(),
    "reshapes": lambda g, x: (g.reshape(-1) * x.cos().reshape(-1)).view(x.shape),
    "clones and writes": lambda g, x: g.clone().mul_(x.cos()),
    "numpy": lambda g, x: torch.from_numpy(np.cos(x.numpy()) * g.numpy()),
    "another layout out": lambda g, x: (g * x.cos()).t().contiguous().t(),
}


@pytest.mark.parametrize("backward", WRONG_GRADS.values(), ids=WRONG_GRADS)
@pytest.mark.parametrize("reference", [torch.sin, None], ids=["reference", "alone"])
def test_a_backward_that_ignores_the_strides_of_grad_output_is_found(backward, reference):
    found = outcome("grad-output-layout", function(torch.sin, backward), reference=reference)
    assert found.status == "failed"
    assert all("grad_output 0" in each.where and each.fix for each in found.findings)


@pytest.mark.parametrize("rule", BY_ID)
@pytest.mark.parametrize("backward", RIGHT_GRADS.values(), ids=RIGHT_GRADS)
@pytest.mark.parametrize("reference", [torch.sin, None], ids=["reference", "alone"])
def test_a_backward_that_respects_or_removes_the_strides_passes(rule, backward, reference):
    forward = torch.sin
    assert outcome(rule, function(forward, backward), reference=reference).findings == ()


def test_wrong_values_and_crashes_are_told_apart():
    wrong = outcome("grad-output-layout", function(torch.sin, WRONG_GRADS["one stride"])).findings
    crash = outcome("grad-output-layout", function(torch.sin, WRONG_GRADS["view"])).findings
    assert any("silently wrong" in each.message and each.error is not None for each in wrong)
    assert all("raises" in each.message and "in the backward" in each.observed for each in crash)


def test_channels_last_is_tried_where_there_are_four_dimensions():
    planted = function(torch.sin, lambda g, x: channels_last_as_rows(g) * x.cos())
    (found,) = outcome("grad-output-layout", planted, image).findings
    assert "where it is channels last" in found.message


def test_the_second_grad_output_alone_is_found():
    def both(x):
        return x.sin(), x.cos()

    planted = function(both, lambda g, h, x: g * x.cos() - flat(h) * x.sin())
    found = outcome("grad-output-layout", planted, reference=both).findings
    assert {each.where for each in found} == {"grad_output 1"}


def test_a_conjugate_grad_output_is_tried_for_complex_outputs():
    def bits(g, x):
        whole = torch.view_as_complex(torch.view_as_real(g.conj() if g.is_conj() else g).clone())
        return whole * x.cos().conj()

    def make(dtype=torch.float64):
        return (torch.randn(4, dtype=torch.complex128).requires_grad_(),)

    found = outcome("grad-output-layout", function(torch.sin, bits), make).findings
    assert "conjugate view" in found[0].message
    assert outcome("grad-output-layout", function(torch.sin, lambda g, x: g * x.cos().conj()), make).findings == ()


FORWARDS_WRONG = {
    "as_strided": lambda x: flat(x).sin(),
    "no storage offset": lambda x: first_row_storage(x).sin(),
    "view": lambda x: x.view(-1).sin().view(x.shape),
    "one stride": lambda x: torch.as_strided(x, x.shape, (x.stride(0), 1), x.storage_offset()).sin(),
    "empty_like filled flat": lambda x: fill_like(x, x.sin()),
}


def fill_like(x, values):
    """53's fault: empty_like keeps the strides of x, the memory is filled in the order of rows."""
    out = torch.empty_like(x)
    torch.as_strided(out, (out.numel(),), (1,)).copy_(values.reshape(-1))
    return out


@pytest.mark.parametrize("forward", FORWARDS_WRONG.values(), ids=FORWARDS_WRONG)
@pytest.mark.parametrize("reference", [torch.sin, None], ids=["reference", "alone"])
def test_a_forward_that_ignores_the_strides_of_its_input_is_found(forward, reference):
    planted = function(forward, lambda g, x: g * x.cos())
    found = outcome("input-layout", planted, reference=reference)
    # A forward that raises is seen at once; one that is silently wrong is not.
    loud = forward is FORWARDS_WRONG["view"]
    assert found.findings[0].severity == ("warning" if loud else "error")
    assert found.findings[0].where == "input 0"


@pytest.mark.parametrize(
    "backward",
    [
        lambda g, x: g * flat(x).cos(),
        lambda g, x: fill_like(x, g * x.cos()),
        lambda g, x: (g.reshape(-1) * x.view(-1).cos()).view(x.shape),
    ],
    ids=["as_strided", "empty_like", "view"],
)
def test_a_backward_that_ignores_the_strides_of_what_was_saved_is_found(backward):
    assert outcome("input-layout", function(torch.sin, backward)).status == "failed"


def test_an_integer_input_is_laid_out_too():
    def make(dtype=torch.float64):
        return torch.randn(5, 3, dtype=dtype).requires_grad_(), torch.tensor([[4, 0], [2, 1], [3, 3]])

    def backward(g, table, index):
        return torch.zeros_like(table).index_put_((index,), g, accumulate=True), None

    wrong = function(lambda table, index: table[flat(index)], backward)
    right = function(lambda table, index: table[index], backward)
    found = outcome("input-layout", wrong, make, lambda table, index: table[index]).findings
    assert {each.where for each in found} == {"input 1"}
    assert outcome("input-layout", right, make, lambda table, index: table[index]).findings == ()


@pytest.mark.parametrize(
    "refusing", [lambda x: x.sin() if x.is_contiguous() else raises(x), asserts], ids=["raises", "asserts"]
)
def test_a_forward_that_asks_for_packed_memory_is_told_as_a_fact(refusing):
    found = outcome("input-layout", function(refusing, lambda g, x: g * x.cos()))
    assert found.status == "ok"
    assert {each.severity for each in found.findings} == {"info"}


def test_what_the_reference_refuses_as_well_is_not_judged():
    def only_packed(x):
        return x.view(-1).sin().view(x.shape)

    planted = function(only_packed, lambda g, x: g * x.cos())
    assert outcome("input-layout", planted, reference=only_packed).findings == ()


def test_ties_may_be_broken_either_way():
    def backward(g, x):
        return torch.zeros_like(x).scatter(-1, x.argmax(-1, keepdim=True), g[..., None])

    planted = function(lambda x: x.max(-1).values, backward)
    for reference in (lambda x: x.max(-1).values, None):
        for rule in BY_ID:
            assert outcome(rule, planted, reference=reference).findings == ()


def test_a_function_that_draws_is_judged_by_its_grad_output_only():
    def forward(x):
        return x * (torch.rand_like(x) > 0.5)

    class Dropout(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            keep = (torch.rand_like(x) > 0.5).to(x.dtype)
            ctx.save_for_backward(keep)
            return x * keep

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    for declared in (True, False):
        assert outcome("input-layout", Dropout, reference=None, random=declared).status == "n/a"
        assert outcome("grad-output-layout", Dropout, reference=forward, random=declared).status == "ok"
    assert outcome("input-layout", Dropout, reference=forward, random=True).status == "n/a"


def test_an_input_that_is_written_to_by_declaration_passes():
    class ExpInPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x.exp_())
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    for rule in BY_ID:
        assert outcome(rule, ExpInPlace, reference=torch.exp, mutates=(0,)).findings == ()


def test_a_float32_computation_inside_is_no_matter_of_layout():
    planted = function(lambda x: x.float().sum(0).to(x.dtype), lambda g, x: g.float().expand(x.shape).to(x.dtype))
    for rule in BY_ID:
        assert outcome(rule, planted, reference=lambda x: x.sum(0)).findings == ()


@pytest.mark.parametrize(
    ("name", "rule"), [("02_grad_strides_ignored", "grad-output-layout"), ("53_input_layout_assumed", "input-layout")]
)
def test_the_corpus_faults_are_found(name, rule):
    assert {found.severity for found in in_corpus(name, rule)} == {"error"}


@pytest.mark.parametrize("name", [name for name in faulty.NAMES if name.startswith("ok_")])
def test_the_correct_twins_pass(name):
    assert [found for rule in BY_ID for found in in_corpus(name, rule)] == []
