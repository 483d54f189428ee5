"""Frozen inputs."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome


def pair(dtype=torch.float64):
    return normal(4, 3, dtype=dtype), normal(3, 2, dtype=dtype)


def matmul(ctx, x, w):
    ctx.save_for_backward(x, w)
    return x @ w


def asking(ctx, g):
    x, w = ctx.saved_tensors
    return (g @ w.t() if ctx.needs_input_grad[0] else None), (x.t() @ g if ctx.needs_input_grad[1] else None)


def never_asking(ctx, g):
    x, w = ctx.saved_tensors
    return g @ w.t(), x.t() @ g


def asking_the_other(ctx, g):
    x, w = ctx.saved_tensors
    return (g @ w.t() if ctx.needs_input_grad[1] else None), (x.t() @ g if ctx.needs_input_grad[0] else None)


def scaled_where_frozen(ctx, g):
    x, w = ctx.saved_tensors
    return g @ w.t() * sum(ctx.needs_input_grad), x.t() @ g * sum(ctx.needs_input_grad)


def only_for_itself(ctx, x, w):
    """Saves an input where its own gradient is needed, which is the wrong way round."""
    ctx.save_for_backward(x if ctx.needs_input_grad[0] else None, w if ctx.needs_input_grad[1] else None)
    return x @ w


def saving_what_is_read(ctx, x, w):
    ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, w if ctx.needs_input_grad[0] else None)
    return x @ w


def needs_a_node(ctx, x, w):
    assert any(ctx.needs_input_grad)
    return matmul(ctx, x, w)


def other_in_inference(ctx, x, w):
    return matmul(ctx, x, w) + (not any(ctx.needs_input_grad))


@pytest.mark.parametrize(
    ("forward", "backward", "word"),
    [
        (matmul, asking_the_other, "None"),
        (matmul, scaled_where_frozen, "differs"),
        (only_for_itself, asking, "raises"),
        (needs_a_node, asking, "raises AssertionError where no input"),
        (other_in_inference, asking, "differs where no input"),
    ],
)
def test_a_gradient_that_hangs_on_the_other_input_is_found(forward, backward, word):
    told = messages("needs-input-grad", function(forward, backward), pair)
    assert any(word in each for each in told)


@pytest.mark.parametrize(
    ("forward", "backward"), [(matmul, asking), (matmul, never_asking), (saving_what_is_read, asking)]
)
def test_the_same_gradients_are_right(forward, backward):
    assert not findings("needs-input-grad", function(forward, backward), pair)


def test_random_numbers_are_fixed_for_the_comparison():
    def forward(ctx, x, w):
        keep = torch.rand_like(x)
        ctx.save_for_backward(keep)
        return x * keep + w.sum()

    planted = function(forward, lambda ctx, g: (g * ctx.saved_tensors[0], g.sum().expand(3, 2)))
    assert not findings("needs-input-grad", planted, pair, random=True)


def frozen(forward, backward, make_inputs=pair):
    return [(each.where, each.severity) for each in findings("frozen-work", function(forward, backward), make_inputs)]


def test_a_gradient_that_nobody_needs_is_found():
    assert frozen(matmul, never_asking) == [("gradient 0 of Planted", "warning"), ("gradient 1 of Planted", "warning")]


def test_work_whose_result_is_thrown_away_is_found():
    def backward(ctx, g):
        grads = never_asking(ctx, g)
        return tuple(grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad, strict=True))

    found = findings("frozen-work", function(matmul, backward), pair)
    assert {each.where for each in found} == {"gradient 0 of Planted", "gradient 1 of Planted"}
    assert all("same work" in each.message for each in found)


def test_a_gradient_for_what_never_requires_grad_is_found():
    planted = function(matmul, never_asking)
    found = findings("frozen-work", planted, lambda: (pair()[0], pair()[1].detach()))
    assert [each.where for each in found] == ["gradient 1 of Planted"]


def test_an_intermediate_kept_for_a_frozen_input_is_a_warning():
    def forward(ctx, x, w):
        ctx.save_for_backward(x.exp(), w)
        return x.exp() @ w

    def backward(ctx, g):
        e, w = ctx.saved_tensors
        return (g @ w.t() if ctx.needs_input_grad[0] else None), (e.t() @ g if ctx.needs_input_grad[1] else None)

    assert ("saved tensor 0 of Planted", "warning") in frozen(forward, backward)


def test_an_input_kept_for_a_frozen_one_is_only_told():
    assert frozen(matmul, asking) == [("saved tensor 1 of Planted", "info"), ("saved tensor 0 of Planted", "info")]


def test_saving_and_computing_only_what_is_needed_is_right():
    assert not frozen(saving_what_is_read, asking)


def same_shape(dtype=torch.float64):
    return normal(3, dtype=dtype), normal(3, dtype=dtype)


def joint(ctx, g):
    """The second gradient is a step on the way to the first."""
    product = g * ctx.saved_tensors[0]
    return (product * 2 if ctx.needs_input_grad[0] else None), product


@pytest.mark.parametrize("backward", [lambda ctx, g: (g, g), lambda ctx, g: (g.view(-1), g), joint])
def test_a_gradient_that_costs_nothing_more_may_be_returned(backward):
    def forward(ctx, x, y):
        ctx.save_for_backward(torch.full_like(x, 1.5))
        return x + y

    assert not [each for each in frozen(forward, backward, same_shape) if "gradient 1" in each[0]]


def test_a_composition_is_not_asked_for_its_work():
    assert outcome("frozen-work", torch.matmul, pair).status == "n/a"


def one(dtype=torch.float64):
    return (normal(4, 5, dtype=dtype),)


def prepared(ctx, x):
    ctx.save_for_backward(x.cos())
    return x.sin()


def prepared_where_needed(ctx, x):
    if ctx.needs_input_grad[0]:
        ctx.save_for_backward(x.cos())
    return x.sin()


def statistic(ctx, x):
    ctx.save_for_backward(x, x.amax(-1) + 1)
    return x.sin()


def used_in_the_output(ctx, x):
    keep = (x > 0).to(x.dtype)
    ctx.save_for_backward(keep)
    return x * keep


def through_numpy(ctx, x):
    scale = x.cos()
    ctx.save_for_backward(scale)
    return torch.from_numpy(x.detach().numpy() * scale.numpy())


def by_a_kernel(ctx, x):
    """A kernel fills empty memory behind PyTorch's back."""
    out, cosines = torch.empty_like(x), torch.empty_like(x)
    cosines.numpy()[...] = x.detach().cos().numpy()
    out.numpy()[...] = x.detach().sin().numpy()
    ctx.save_for_backward(cosines)
    return out


def by_saved(ctx, g):
    return g * ctx.saved_tensors[0]


@pytest.mark.parametrize(
    ("forward", "severities"),
    [
        (prepared, ["warning"]),
        (statistic, ["info"]),
        (prepared_where_needed, []),
        (used_in_the_output, []),
        (lambda ctx, x: ctx.save_for_backward(x) or x.sin(), []),
    ],
)
def test_what_is_prepared_for_nobody_is_found(forward, severities):
    assert [each.severity for each in findings("no-grad-saving", function(forward, by_saved), one)] == severities


def test_a_forward_without_ctx_cannot_ask():
    """As in PyTorch's own tutorial: what the backward needs is an output, which the caller drops."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output[1])

    def backward(ctx, g, g_slope):
        x, slope = ctx.saved_tensors
        return g * slope + g_slope * 6 * x

    planted = function(lambda x: (x**3, 3 * x**2), backward, setup_context=setup_context)
    assert [each.severity for each in findings("no-grad-saving", lambda x: planted.apply(x)[0], one)] == ["info"]


@pytest.mark.parametrize("forward", [through_numpy, by_a_kernel])
def test_what_cannot_be_followed_is_not_judged(forward):
    assert outcome("no-grad-saving", function(forward, by_saved), one).status == "n/a"


def test_the_corpus_fault_is_found():
    found = of_fault("24_frozen_weight_work", ["frozen-work"])
    assert {each.where for each in found} == {"gradient 0 of PlainLinear", "gradient 1 of PlainLinear"}


@pytest.mark.parametrize(
    "name", ["ok_04_hands_on_grad_output", "ok_24_saves_none", "ok_43_vmap_rule", "ok_20_once_differentiable"]
)
def test_the_right_twins_pass(name):
    found = of_fault(name, ["needs-input-grad", "frozen-work", "no-grad-saving"])
    assert not [each for each in found if each.severity != "info"]
