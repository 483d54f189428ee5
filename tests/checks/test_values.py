"""Outputs and gradients at the given inputs, with a reference and without one."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome


def one(dtype=torch.float64):
    return (normal(3, 4, dtype=dtype),)


def pair(dtype=torch.float64):
    return normal(4, dtype=dtype), normal(3, 4, dtype=dtype)


def saving(compute):
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return compute(*tensors)

    return forward


def square(backward):
    return function(saving(lambda x: x * x), lambda ctx, g: backward(g, *ctx.saved_tensors))


RIGHT = square(lambda g, x: 2 * x * g)
WRONG = {
    "twice as large": lambda g, x: 4 * x * g,
    "of the wrong sign": lambda g, x: -2 * x * g,
    "zero": lambda g, x: torch.zeros_like(x),
    "dropped in one place": lambda g, x: torch.where(torch.arange(4) == 3, 0, 2 * x * g),
    "of another row": lambda g, x: 2 * x * g.roll(1, 0),
    "the first weight for all": lambda g, x: 2 * x * g.reshape(-1)[0],
    "the mean weight for all": lambda g, x: 2 * x * g.mean(),
    "without grad_output": lambda g, x: 2 * x,
    "clipped": lambda g, x: (2 * x * g).clamp(-8, 8),
    "nan": lambda g, x: 2 * x * g * torch.nan,
    "none": lambda g, x: None,
}


@pytest.mark.parametrize("reference", [None, lambda x: x * x], ids=["forward", "reference"])
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_gradient_is_found(fault, reference):
    if fault == "clipped" and reference is None:
        pytest.skip("the forward is held against weights of ordinary size alone")
    found = findings("gradient", square(WRONG[fault]), one, reference)
    assert found
    assert all(each.where == "gradient of input 0" for each in found)


@pytest.mark.parametrize("reference", [None, lambda x: x * x], ids=["forward", "reference"])
def test_a_right_gradient_passes(reference):
    assert not findings("gradient", RIGHT, one, reference)


def test_a_gradient_that_a_sum_would_hide_is_told_as_such():
    assert "right where grad_output is constant" in findings("gradient", square(WRONG["of another row"]), one,
                                                             lambda x: x * x)[0].message  # fmt: skip


def test_the_jacobians_of_gradcheck_are_quoted():
    found = findings("gradient", square(WRONG["zero"]), one)[0]
    assert "Jacobian mismatch for output 0 with respect to input 0" in found.message
    assert found.observed.startswith("analytical:tensor(")
    assert found.expected.startswith("numerical:tensor(")
    assert "backward" in found.fix


def test_the_right_input_is_named():
    swapped = function(
        saving(lambda a, b: a * b), lambda ctx, g: (torch.zeros(4, dtype=g.dtype), g * ctx.saved_tensors[0])
    )
    assert {each.where for each in findings("gradient", swapped, pair, lambda a, b: a * b)} == {"gradient of input 0"}


def test_a_factor_that_finite_differences_do_not_see_is_found_with_a_reference():
    slightly = square(lambda g, x: 2 * x * g * (1 + 1e-7))
    assert not findings("gradient", slightly, one)
    assert findings("gradient", slightly, one, lambda x: x * x)


def test_every_output_has_its_part_in_the_gradient():
    def both(x):
        return x.sin(), x.cos()

    first_only = function(saving(both), lambda ctx, g, h: g * ctx.saved_tensors[0].cos())
    assert findings("gradient", first_only, one)
    right = function(saving(both), lambda ctx, g, h: g * ctx.saved_tensors[0].cos() - h * ctx.saved_tensors[0].sin())
    assert not findings("gradient", right, one, both)


def test_an_output_that_lost_its_graph_is_found():
    (said,) = messages("gradient", lambda x: (x * x).detach(), one, lambda x: x * x)
    assert "no output requires grad" in said


def at_kinks(dtype=torch.float64):
    return (torch.tensor([[0.0, 1.0, 0.0], [2.0, 2.0, -1.0]], dtype=dtype, requires_grad=True),)


@pytest.mark.parametrize("reference", [None, lambda x: x.relu()], ids=["forward", "reference"])
@pytest.mark.parametrize("at_zero", [0.0, 0.5, 1.0])
def test_every_subgradient_of_a_kink_is_right(at_zero, reference):
    relu = function(
        saving(torch.relu),
        lambda ctx, g: g * torch.heaviside(ctx.saved_tensors[0], torch.tensor(at_zero, dtype=g.dtype)),
    )
    assert not findings("gradient", relu, at_kinks, reference)


def test_a_slope_beyond_a_kink_is_wrong():
    relu = function(
        saving(torch.relu), lambda ctx, g: g * torch.heaviside(ctx.saved_tensors[0], torch.tensor(3.0, dtype=g.dtype))
    )
    assert findings("gradient", relu, at_kinks, torch.relu)
    assert findings("gradient", relu, at_kinks)


def maximum(share):
    """The largest of each row. share(mask): how its gradient is divided among equal ones."""

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g[:, None] * share((x == x.amax(-1, keepdim=True)).to(g.dtype))

    return function(saving(lambda x: x.amax(-1)), backward)


def test_a_maximum_may_choose_or_share_but_not_count_twice():
    first = maximum(lambda mask: mask * (mask.cumsum(-1) == 1))
    shared = maximum(lambda mask: mask / mask.sum(-1, keepdim=True))
    twice = maximum(lambda mask: mask)
    for right in (first, shared):
        assert not findings("gradient", right, at_kinks, lambda x: x.amax(-1))
        assert not findings("gradient", right, at_kinks)
    assert findings("gradient", twice, at_kinks, lambda x: x.amax(-1))


def test_a_forward_that_computes_in_float32_inside_is_followed_by_longer_steps():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().exp().double()

    single = function(forward, lambda ctx, g: g * ctx.saved_tensors[0].exp())
    assert not findings("gradient", single, one)
    wrong = function(forward, lambda ctx, g: g * ctx.saved_tensors[0].exp() * 1.5)
    assert findings("gradient", wrong, one)


def test_complex_gradients_have_torchs_convention():
    def complexes(dtype=torch.float64):
        return (torch.complex(normal(4), normal(5)[:4].detach()).detach().requires_grad_(),)

    right = function(saving(lambda z: z * z), lambda ctx, g: 2 * g * ctx.saved_tensors[0].conj())
    missing = function(saving(lambda z: z * z), lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    for reference in (None, lambda z: z * z):
        assert not findings("gradient", right, complexes, reference)
        assert findings("gradient", missing, complexes, reference)


def rounding(ctx, x):
    return x.round()


def test_a_surrogate_is_right_where_it_is_declared():
    straight = function(rounding, lambda ctx, g: g)
    assert findings("gradient", straight, one)
    assert not findings("gradient", straight, one, surrogate=True)
    assert not findings("gradient", straight, one, surrogate=True, surrogate_of=lambda x: x)
    twice = function(rounding, lambda ctx, g: 2 * g)
    assert findings("gradient", twice, one, surrogate=True, surrogate_of=lambda x: x)


NOT_LINEAR = {
    "its sign": lambda ctx, g: g.sign(),
    "clipped": lambda ctx, g: g.clamp(-0.5, 0.5),
    "a constant added": lambda ctx, g: g + 1,
    "without grad_output": lambda ctx, g: torch.ones_like(g),
}


@pytest.mark.parametrize("fault", NOT_LINEAR)
def test_a_surrogate_that_is_not_linear_in_grad_output_is_a_warning(fault):
    found = findings("gradient", function(rounding, NOT_LINEAR[fault]), one, surrogate=True)
    assert {(each.severity, each.where) for each in found} == {("warning", "gradient of input 0")}


@pytest.mark.parametrize("factor", [-3.0, 0.0])
def test_a_reversed_or_a_zero_surrogate_is_linear(factor):
    assert not findings("gradient", function(rounding, lambda ctx, g: factor * g), one, surrogate=True)


def test_a_function_that_writes_to_its_input_is_called_with_copies():
    def forward(ctx, x):
        ctx.mark_dirty(x.exp_())
        ctx.save_for_backward(x)
        return x

    right = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    wrong = function(forward, lambda ctx, g: g)
    assert not findings("gradient", right, one, lambda x: x.exp(), mutates=(0,))
    assert findings("gradient", wrong, one, lambda x: x.exp(), mutates=(0,))
    assert findings("gradient", wrong, one, mutates=(0,))


@pytest.mark.parametrize("declared", [True, False])
def test_random_numbers_are_the_same_in_every_call(declared):
    def forward(ctx, x):
        keep = (torch.rand_like(x) > 0.5).to(x.dtype) * 2
        ctx.save_for_backward(keep)
        return x * keep

    kept = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    redrawn = function(forward, lambda ctx, g: g * (torch.rand_like(g) > 0.5) * 2)
    assert not findings("gradient", kept, one, random=declared)
    assert findings("gradient", redrawn, one, random=declared)
    assert outcome("value", kept, one, torch.dropout, random=declared).status == "n/a"


def test_a_wrong_output_is_found():
    for wrong in (lambda x: x * x + 1e-6, lambda x: (x * x)[None], lambda x: (x * x, x), lambda x: x * x * torch.nan):
        assert findings("value", wrong, one, lambda x: x * x)
    assert "float32" in messages("value", lambda x: (x * x).float(), one, lambda x: x * x)[0]
    assert not findings("value", lambda x: x**2, one, lambda x: x * x)


@pytest.mark.parametrize("name", ["01_row_grad_as_scalar", "41_none_for_needed_input", "48_recompute_without_rng"])
def test_the_faults_of_the_corpus_are_found(name):
    assert of_fault(name, {"gradient"})
