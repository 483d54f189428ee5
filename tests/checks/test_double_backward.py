"""The second derivative: right, or refused; with planted faults that must be found and right ones that must pass."""

from dataclasses import replace

import numpy
import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome
from torch.autograd.function import once_differentiable

from autofn.checks.double_backward import double_backward
from autofn.checks.intent import Intent
from autofn.checks.subject import of_callable
from autofn.refusal import refuse_double_backward

RULE = "double-backward"


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def two(dtype=torch.float64):
    return normal(4, dtype=dtype), normal(4, dtype=dtype) + 1


def save(*chosen):
    """A forward that computes `y` from x and saves what is chosen of x, y and an intermediate."""

    def forward(ctx, x):
        middle = x * x
        y = middle * x
        ctx.save_for_backward(*({"x": x, "y": y, "middle": middle}[name] for name in chosen))
        return y

    return forward


def on_ctx(ctx, x):
    ctx.x = x.detach()
    return x**3


def lazily(ctx, x, w):
    """x * x * w; saves x only where w needs a gradient, which the second derivative in x alone would need too."""
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else x.detach(), w)
    return x * x * w


def of_lazily(ctx, g):
    x, w = ctx.saved_tensors
    return 2 * x * w * g, x * x * g


def by_numpy(ctx, g):
    (x,) = ctx.saved_tensors
    return torch.from_numpy(3 * x.detach().numpy() ** 2 * g.detach().numpy())


def without_history(ctx, g):
    with torch.no_grad():
        return 3 * ctx.saved_tensors[0] ** 2 * g


def half_detached(ctx, g):
    (x,) = ctx.saved_tensors
    return 3 * x * x.detach() * g


def grad_output_detached(ctx, g):
    return 3 * ctx.saved_tensors[0] ** 2 * g.detach()


WRONG = {
    "a saved intermediate": function(save("middle"), lambda ctx, g: 3 * ctx.saved_tensors[0] * g),
    "a tensor on ctx": function(on_ctx, lambda ctx, g: 3 * ctx.x**2 * g),
    "numpy": function(save("x"), by_numpy),
    "no_grad": function(save("x"), without_history),
    "half of it detached": function(save("x"), half_detached),
    "grad_output detached": function(save("x"), grad_output_detached),
    "right only for all inputs": function(lazily, of_lazily),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_second_derivative_that_is_silently_wrong_is_an_error(fault):
    inputs = two if "all inputs" in fault else one
    assert [each.severity for each in findings(RULE, WRONG[fault], inputs)] == ["error"]


@pytest.mark.parametrize("fault", ["19_intermediate_double_backward", "20_opaque_backward"])
def test_the_faults_of_the_corpus_are_errors(fault):
    (found,) = of_fault(fault, [RULE])
    assert found.severity == "error"
    assert found.fix


def test_what_disagrees_is_quoted():
    (found,) = findings(RULE, WRONG["a saved intermediate"], one)
    assert "is wrong" in found.message or "silently zero" in found.message
    assert found.where == "gradient 0"
    assert "by differences of the gradient" in found.expected
    assert found.error > 0


def test_one_that_is_zero_for_a_constant_grad_output_alone_is_found():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * (x if g.requires_grad else x.detach()) ** 2 * g

    (said,) = messages(RULE, function(save("x"), backward), one)
    assert "silently zero for a constant grad_output" in said


def test_a_third_derivative_that_is_wrong_is_found_where_the_second_is_right():
    class Inner(torch.autograd.Function):
        """3 * x**2 * g, whose own backward keeps a constant."""

        @staticmethod
        def forward(ctx, x, g):
            ctx.save_for_backward(x, g)
            return 3 * x * x * g

        @staticmethod
        def backward(ctx, gg):
            x, g = ctx.saved_tensors
            return 6 * x.detach() * g * gg, 3 * x * x * gg

    planted = function(save("x"), lambda ctx, g: Inner.apply(ctx.saved_tensors[0], g))
    (said,) = messages(RULE, planted, one)
    assert "the third derivative" in said


RIGHT = {
    "saved input": function(save("x"), lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g),
    "saved output": function(save("x", "y"), lambda ctx, g: 3 * ctx.saved_tensors[1] / ctx.saved_tensors[0] * g),
    "a constant mask": function(
        lambda ctx, x: (ctx.save_for_backward(x > 0), x.clamp(min=0))[1],
        lambda ctx, g: g * ctx.saved_tensors[0],
    ),
    "straight through": function(lambda ctx, x: x.round(), lambda ctx, g: g),
    "sign": function(lambda ctx, x: x.sign(), lambda ctx, g: torch.zeros_like(g)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_passes(name):
    assert findings(RULE, RIGHT[name], one) == ()


def test_a_corner_among_the_inputs_is_not_judged():
    def at_zero(dtype=torch.float64):
        return (torch.tensor([0.0, -1.0, 2.0], dtype=dtype, requires_grad=True),)

    assert findings(RULE, RIGHT["a constant mask"], at_zero) == ()


def test_a_symmetric_input_stays_symmetric():
    def inverse(ctx, x):
        y = torch.linalg.inv(torch.tril(x) + torch.tril(x, -1).mT)
        ctx.save_for_backward(y)
        return y

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return -(y @ (g + g.mT) @ y) / 2

    def spd(dtype=torch.float64):
        a = normal(3, 3, dtype=dtype).detach()
        return ((a @ a.mT + 3 * torch.eye(3, dtype=dtype)).requires_grad_(),)

    planted = function(inverse, backward)
    symmetric = lambda x: planted.apply((x + x.mT) / 2)  # noqa: E731
    assert findings(RULE, symmetric, spd) == ()


def test_a_complex_function_passes():
    planted = function(
        lambda ctx, z: (ctx.save_for_backward(z), z * z)[1], lambda ctx, g: 2 * ctx.saved_tensors[0].conj() * g
    )

    def complex_input(dtype=torch.complex128):
        return (torch.randn(3, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)).requires_grad_(),)

    assert findings(RULE, planted, complex_input) == ()


def test_a_random_function_is_compared_under_one_seed():
    def forward(ctx, x):
        mask = torch.rand_like(x)
        ctx.save_for_backward(x, mask)
        return mask * x * x

    planted = function(forward, lambda ctx, g: 2 * ctx.saved_tensors[0] * ctx.saved_tensors[1] * g)
    assert findings(RULE, planted, one, random=True) == ()


def test_the_marked_ones_of_torch_are_told_where_they_do_not_refuse():
    planted = function(save("x"), once_differentiable(by_numpy))
    (found,) = findings(RULE, planted, one)
    assert found.severity == "info"
    assert "marked once_differentiable, which does not refuse here" in found.message


def test_a_linear_one_of_them_refuses_wherever_it_matters():
    planted = function(lambda ctx, x: 2 * x, once_differentiable(lambda ctx, g: torch.from_numpy(2 * g.numpy())))
    (found,) = findings(RULE, planted, one)
    assert found.severity == "info"
    assert "refuses a second derivative" in found.message


def test_a_refusal_in_clear_words_is_told():
    planted = function(save("x"), refuse_double_backward("cube")(without_history))
    (found,) = findings(RULE, planted, one)
    assert found.severity == "info"
    assert "double backward is not implemented" in found.message


def test_a_declared_refusal_passes():
    planted = function(save("x"), refuse_double_backward("cube")(without_history))
    assert findings(RULE, planted, one, once_differentiable=True) == ()


def test_a_declared_refusal_that_is_silent_is_an_error():
    (found,) = findings(RULE, WRONG["numpy"], one, once_differentiable=True)
    assert found.severity == "error"
    assert "silently zero for a constant grad_output" in found.message


def test_a_declared_refusal_that_does_not_come_is_a_warning():
    (found,) = findings(RULE, RIGHT["saved input"], one, once_differentiable=True)
    assert found.severity == "warning"
    assert "a second derivative came out" in found.message


class RefusedForOne(torch.autograd.Function):
    """The second derivative of one gradient of x**3 + y**3 is refused, that of the other is right."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    backward = staticmethod(refuse_double_backward("cube")(lambda ctx, g: 3 * ctx.saved_tensors[0].detach() ** 2 * g))


def test_a_declared_refusal_of_one_gradient_beside_another_that_is_right_passes():
    assert findings(RULE, lambda x, y: RefusedForOne.apply(x) + y**3, two, once_differentiable=True) == ()


def test_a_second_derivative_that_fails_by_accident_is_a_warning():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g if not torch.is_grad_enabled() else None + g

    (found,) = findings(RULE, function(save("x"), backward), one)
    assert found.severity == "warning"
    assert "TypeError" in found.message


def test_a_kernel_in_float32_is_held_against_the_reference():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x.float() ** 3).to(x.dtype)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.from_numpy(3 * x.detach().float().numpy() ** 2 * g.detach().float().numpy()).to(x.dtype)

    planted = function(forward, backward)
    (found,) = findings(RULE, planted, one, lambda x: x**3)
    assert found.severity == "error"
    assert numpy.isfinite(found.error)
    right = function(forward, lambda ctx, g: (3 * ctx.saved_tensors[0].float() ** 2 * g.float()).to(g.dtype))
    assert findings(RULE, right, one, lambda x: x**3) == ()


def test_a_first_backward_that_raises_is_left_to_other_rules():
    def backward(ctx, g):
        raise RuntimeError("no")

    assert outcome(RULE, function(save("x"), backward), one).status == "n/a"


def test_a_wrong_first_gradient_is_left_to_other_rules():
    planted = function(save("x"), lambda ctx, g: 5 * ctx.saved_tensors[0] ** 2 * g)
    assert findings(RULE, planted, one, lambda x: x**3) == ()


def rounded_steps(x, step):
    """Straight-through rounding to steps, by a detached pair: step's gradient depends on x, that of x not on step."""
    ratio = x / step
    return (ratio + (ratio.round() - ratio).detach()) * step


@pytest.mark.parametrize(("written", "severity"), [(False, "info"), (True, "error")])
def test_a_surrogate_of_detached_pairs_is_told_where_no_backward_is_written(written, severity):
    subject = of_callable(rounded_steps, two, intent=Intent(surrogate=True, surrogate_of=rounded_steps))
    told = [each.severity for each in double_backward(replace(subject, written=written)) if hasattr(each, "severity")]
    assert told == [severity]


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_silent_zero_is_found_in_float32_alone_too(power):
    """Differences of float32 gradients do not settle, nor where some are 0: those of the reference in float64 do."""

    def made_by_a_kernel(ctx, g):
        (x,) = ctx.saved_tensors
        return power * x.detach() ** (power - 1) * g.detach()

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**power

    def checked(backward):
        subject = of_callable(function(forward, backward), one, reference=lambda x: x**power)
        return list(double_backward(replace(subject, dtype=torch.float32)))

    (found,) = checked(made_by_a_kernel)
    assert "the second derivative is silently zero" in found.message

    def right(ctx, g):
        (x,) = ctx.saved_tensors
        return power * x ** (power - 1) * g

    assert not [each for each in checked(right) if hasattr(each, "message")]
