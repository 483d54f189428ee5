"""Forward mode against reverse mode."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome


def one(dtype=torch.float64):
    return (normal(4, dtype=dtype),)


def two(dtype=torch.float64):
    return normal(3, dtype=dtype), normal(3, dtype=dtype) + 1


def keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def sine(jvp):
    return function(
        lambda x: x.sin(), lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=keep_inputs, jvp=jvp
    )


def product(jvp):
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    return function(lambda x, y: x * y, backward, setup_context=keep_inputs, jvp=jvp)


def right_product(ctx, tx, ty):
    x, y = ctx.saved_tensors
    return tx * y + x * ty


WRONG = {
    "ignores the tangent": (sine(lambda ctx, t: ctx.saved_tensors[0].cos()), one),
    "the negative": (sine(lambda ctx, t: -ctx.saved_tensors[0].cos() * t), one),
    "not linear": (sine(lambda ctx, t: ctx.saved_tensors[0].cos() * t * t), one),
    "zero": (sine(lambda ctx, t: torch.zeros_like(t)), one),
    "the first tangent alone": (product(lambda ctx, tx, ty: tx * ctx.saved_tensors[1]), two),
    "the tangents swapped": (product(lambda ctx, tx, ty: right_product(ctx, ty, tx)), two),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_jvp_is_an_error(fault):
    (found,) = findings("jvp", *WRONG[fault])
    assert found.severity == "error"
    assert "inconsistent with backward" in found.message
    assert "by the backward" in found.expected


def test_the_fault_of_the_corpus_is_an_error():
    (found,) = of_fault("44_jvp_ignores_tangent", ["jvp"])
    assert found.severity == "error"


def test_a_jvp_that_raises_is_an_error():
    (found,) = findings("jvp", sine(lambda ctx, t: t * ctx.missing), one)
    assert "the jvp rule raises" in found.message


def test_a_jvp_that_refuses_is_none():
    def jvp(ctx, t):
        raise NotImplementedError("no forward mode")

    assert outcome("jvp", sine(jvp), one).status == "n/a"


def test_old_style_functions_are_looked_at_too():
    def forward(ctx, x):
        ctx.x = x
        return x.sin()

    def backward(ctx, g):
        return g * ctx.x.cos()

    wrong = function(forward, backward, jvp=lambda ctx, t: ctx.x.cos())
    right = function(forward, backward, jvp=lambda ctx, t: ctx.x.cos() * t)
    assert len(findings("jvp", wrong, one)) == 1
    assert findings("jvp", right, one) == ()


def test_right_ones_pass():
    assert findings("jvp", sine(lambda ctx, t: ctx.saved_tensors[0].cos() * t), one) == ()
    assert findings("jvp", product(right_product), two) == ()
    assert findings("jvp", lambda x, y: (x * y, x.sum()), two) == ()
    assert all(each.severity == "info" for each in of_fault("ok_44_jvp", ["jvp"]))


def test_a_wrong_backward_beside_a_right_jvp_is_left_to_other_rules():
    planted = function(
        lambda x: x.sin(),
        lambda ctx, g: 2 * g * ctx.saved_tensors[0].cos(),
        setup_context=keep_inputs,
        jvp=lambda ctx, t: ctx.saved_tensors[0].cos() * t,
    )
    assert findings("jvp", planted, one) == ()


def test_without_a_jvp_there_is_nothing_to_check():
    planted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    assert outcome("jvp", planted, one).status == "n/a"


def test_an_operator_that_drops_tangents_is_only_told():
    @torch.library.custom_op("autofn_tests_forward_mode::square", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    square.register_autograd(lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=keep)
    assert all(each.severity == "info" for each in findings("jvp", square, one))
