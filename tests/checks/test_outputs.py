"""Several outputs."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome


def one(dtype=torch.float64):
    return (normal(4, dtype=dtype),)


def sin_cos(ctx, x):
    ctx.save_for_backward(x)
    return x.sin(), x.cos()


def lazy(ctx, x):
    ctx.set_materialize_grads(False)
    return sin_cos(ctx, x)


def reference(x):
    return x.sin(), x.cos()


def plain(ctx, a, b):
    (x,) = ctx.saved_tensors
    return a * x.cos() - b * x.sin()


def careful(ctx, a, b):
    (x,) = ctx.saved_tensors
    terms = [None if a is None else a * x.cos(), None if b is None else -b * x.sin()]
    given = [each for each in terms if each is not None]
    return sum(given) if given else None


def half_careful(ctx, a, b):
    """Forgets the other gradient where one is None."""
    (x,) = ctx.saved_tensors
    if a is None or b is None:
        return torch.zeros_like(x)
    return plain(ctx, a, b)


def only_the_second_may_be_missing(ctx, a, b):
    (x,) = ctx.saved_tensors
    return a * x.cos() if b is None else plain(ctx, a, b)


@pytest.mark.parametrize("backward", [plain, half_careful, only_the_second_may_be_missing])
@pytest.mark.parametrize("rule", ["unused-output", "none-grad"])
def test_a_backward_that_does_not_expect_none_is_found(backward, rule):
    assert findings(rule, function(lazy, backward), one, reference)
    assert findings(rule, function(lazy, backward), one)


@pytest.mark.parametrize(("forward", "backward"), [(sin_cos, plain), (lazy, careful), (sin_cos, careful)])
@pytest.mark.parametrize("rule", ["unused-output", "none-grad", "non-differentiable-output"])
def test_zeros_and_handled_nones_are_right(rule, forward, backward):
    assert not findings(rule, function(forward, backward), one, reference)
    assert not findings(rule, function(forward, backward), one)


def test_a_single_output_may_have_no_gradient_either():
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return 2 * x

    (told,) = messages("none-grad", function(forward, lambda ctx, g: 2 * g), one)
    assert "TypeError" in told
    assert not messages("none-grad", function(forward, lambda ctx, g: None if g is None else 2 * g), one)
    assert outcome("unused-output", function(forward, lambda ctx, g: 2 * g), one).status == "n/a"


def largest(ctx, x):
    value, index = x.max(-1)
    ctx.save_for_backward(index)
    return value, index.to(x.dtype)


def largest_marked(ctx, x):
    value, index = largest(ctx, x)
    ctx.mark_non_differentiable(index)
    return value, index


def to_the_largest(ctx, g, _):
    (index,) = ctx.saved_tensors
    return g.new_zeros(4).scatter(-1, index, g)


def largest_in_pytorch(x):
    value, index = x.max(-1)
    return value, index.to(x.dtype)


def test_an_index_of_floats_must_be_marked():
    (found,) = findings("non-differentiable-output", function(largest, to_the_largest), one, largest_in_pytorch)
    assert (found.where, found.severity) == ("output 1", "error")
    marked = function(largest_marked, to_the_largest)
    assert not findings("non-differentiable-output", marked, one, largest_in_pytorch)
    assert not findings("non-differentiable-output", marked, one)


def test_an_integer_output_needs_no_mark():
    def forward(ctx, x):
        value, index = x.max(-1)
        ctx.save_for_backward(index)
        return value, index

    planted = function(forward, to_the_largest)
    assert not findings("non-differentiable-output", planted, one, lambda x: tuple(x.max(-1)))
    assert not findings("none-grad", planted, one)


def test_a_gradient_that_is_dropped_is_found():
    planted = function(sin_cos, lambda ctx, a, b: a * ctx.saved_tensors[0].cos())
    for known in (reference, None):
        (found,) = findings("non-differentiable-output", planted, one, known)
        assert found.where == "output 1"
        assert "dropped" in found.message


def test_a_mark_on_what_has_a_derivative_is_found_where_the_reference_has_one():
    def forward(ctx, x):
        sin, cos = sin_cos(ctx, x)
        ctx.mark_non_differentiable(cos)
        return sin, cos

    planted = function(forward, lambda ctx, a, _: a * ctx.saved_tensors[0].cos())
    (found,) = findings("non-differentiable-output", planted, one, reference)
    assert "marked non-differentiable" in found.message
    assert not findings("non-differentiable-output", planted, one)
    assert not findings("non-differentiable-output", planted, one, lambda x: (x.sin(), x.detach().cos()))


@pytest.mark.parametrize("into", [list, lambda pair: dict(zip("ab", pair, strict=True))])
def test_outputs_hidden_in_a_container_are_found(into):
    planted = function(lambda ctx, x: into(sin_cos(ctx, x)), plain)
    assert [each.where for each in findings("non-differentiable-output", planted, one)] == ["output 0", "output 1"]


def test_a_step_has_no_derivative_and_that_is_right():
    planted = function(lambda ctx, x: (2 * x, x.round()), lambda ctx, a, b: 2 * a)
    assert [each.severity for each in findings("non-differentiable-output", planted, one)] == ["info"]
    assert not findings("non-differentiable-output", planted, one, lambda x: (2 * x, x.round()))


def test_a_surrogate_is_not_judged():
    planted = function(lambda ctx, x: x.sign(), lambda ctx, g: g)
    assert outcome("non-differentiable-output", planted, one, surrogate=True).status == "n/a"


def test_an_output_that_is_no_tensor_is_right():
    planted = function(lambda ctx, x: (2 * x, "label", 3), lambda ctx, a, *rest: 2 * a)
    for rule in ("none-grad", "non-differentiable-output", "output-views"):
        assert not findings(rule, planted, one)


def test_what_refuses_autograd_grad_is_not_judged():
    def run(x):
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True)

    assert outcome("non-differentiable-output", run, one).status == "n/a"


RULES = ["unused-output", "none-grad", "non-differentiable-output"]


def test_the_corpus_fault_is_found():
    assert {each.rule for each in of_fault("35_none_grad_crash", RULES)} >= {"unused-output", "none-grad"}


@pytest.mark.parametrize("name", ["ok_35_tuple_outputs", "ok_37_argmax_output", "ok_01_straight_through"])
def test_the_right_twins_pass(name):
    assert not of_fault(name, RULES)
