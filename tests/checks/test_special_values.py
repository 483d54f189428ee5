"""Zeros, ties, infinities, huge and tiny values, corners: wrong gradients are found, every right convention passes."""

import pytest
import torch
import torch.nn.functional as F
from faulty import findings as of_fault
from planted.written import findings, function, normal


def one(dtype=torch.float64):
    return (normal(3, 4, dtype=dtype),)


def pair(dtype=torch.float64):
    return normal(3, 4, dtype=dtype), normal(4, 3, dtype=dtype).detach().mT.contiguous().requires_grad_()


def saving(compute):
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return compute(*tensors)

    return forward


def made(compute, backward):
    return function(saving(compute), lambda ctx, g: backward(g, *ctx.saved_tensors))


def softmax_where(compute):
    """A softmax with rows of -inf as zeros; compute(x): the probabilities in the backward."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.softmax(-1).nan_to_num()

    def backward(ctx, g):
        p = compute(ctx.saved_tensors[0])
        return p * (g - (g * p).sum(-1, keepdim=True))

    return function(forward, backward)


def masked_softmax(x):
    dead = (x == -torch.inf).all(-1, keepdim=True)
    return torch.where(dead, 0, x.masked_fill(dead, 0).softmax(-1))


def clip(x):
    return x.clamp(-1, 1)


def logcosh(x):
    return F.softplus(-2 * x.abs()) + x.abs() - 0.6931471805599453


# The Function and, where rounding or a convention calls for one, the reference.
WRONG = {
    "sinc: 0/0 at 0": (
        made(torch.sinc, lambda g, x: g * ((torch.pi * x).cos() - torch.sinc(x)) / x),
        torch.sinc,
    ),
    "softplus: inf/inf where exp overflows": (made(F.softplus, lambda g, x: g * x.exp() / (1 + x.exp())), F.softplus),
    "tanh from exponentials: overflow": (
        made(torch.tanh, lambda g, x: g * 4 * (2 * x).exp() / (1 + (2 * x).exp()) ** 2),
        torch.tanh,
    ),
    "abs: 0/0 at 0": (made(torch.abs, lambda g, x: g * x / x.abs()), torch.abs),
    "power: 0 * log 0": (
        made(lambda x: x.abs() ** 3, lambda g, x: g * 3 * x.abs() ** 3 / x),
        lambda x: x.abs() ** 3,
    ),
    "maximum: ties counted twice": (
        made(lambda x: x.amax(-1), lambda g, x: g[:, None] * (x == x.amax(-1, keepdim=True))),
        lambda x: x.amax(-1),
    ),
    "relu: twice the slope at 0": (made(torch.relu, lambda g, x: g * ((x > 0) + 2.0 * (x == 0))), torch.relu),
    "clip: negative at the corner": (made(clip, lambda g, x: g * ((x.abs() < 1) * 1.0 - 1.0 * (x == 1))), clip),
    "softmax: a masked row is NaN": (softmax_where(lambda x: x.softmax(-1)), masked_softmax),
    "normalise: a row of zeros": (
        made(
            lambda x: F.normalize(x, dim=-1),
            lambda g, x: (
                (g - x * (g * x).sum(-1, keepdim=True) / x.square().sum(-1, keepdim=True))
                / x.norm(dim=-1, keepdim=True)
            ),
        ),
        None,
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_gradient_wrong_at_a_special_value_is_found(fault):
    planted, reference = WRONG[fault]
    assert findings("special-values", planted, one, reference)


@pytest.mark.parametrize("fault", [fault for fault in WRONG if "counted twice" not in fault])
def test_it_is_found_without_a_reference_too(fault):
    assert findings("special-values", WRONG[fault][0], one)


RIGHT = {
    "relu, 0 at 0": (made(torch.relu, lambda g, x: g * (x > 0)), lambda x: x.clamp(min=0)),
    "relu, 1 at 0": (made(torch.relu, lambda g, x: g * (x >= 0)), torch.relu),
    "clip, 0 at the corners": (made(clip, lambda g, x: g * (x.abs() < 1)), clip),
    "clip, 1 at the corners": (made(clip, lambda g, x: g * (x.abs() <= 1)), F.hardtanh),
    "abs, 0 at 0": (made(torch.abs, lambda g, x: g * x.sign()), torch.abs),
    "abs, 1 at 0": (made(torch.abs, lambda g, x: torch.where(x >= 0, g, -g)), torch.abs),
    "maximum, the first": (
        made(lambda x: x.amax(-1), lambda g, x: torch.zeros_like(x).scatter(-1, x.argmax(-1)[:, None], g[:, None])),
        lambda x: x.amax(-1),
    ),
    "sinc, guarded": (
        made(
            torch.sinc,
            lambda g, x: torch.where(x.abs() < 1e-4, -3.289868 * x, ((torch.pi * x).cos() - torch.sinc(x)) / x) * g,
        ),
        torch.sinc,
    ),
    "softplus": (made(F.softplus, lambda g, x: g * x.sigmoid()), F.softplus),
    "log cosh": (made(logcosh, lambda g, x: g * x.tanh()), logcosh),
    "square root": (made(torch.sqrt, lambda g, x: g / (2 * x.sqrt())), torch.sqrt),
    "logarithm": (made(torch.log, lambda g, x: g / x), torch.log),
    "reciprocal": (made(torch.reciprocal, lambda g, x: -g / x**2), torch.reciprocal),
    "cube": (made(lambda x: x**3, lambda g, x: 3 * x * x * g), lambda x: x**3),
    "softmax": (softmax_where(masked_softmax), masked_softmax),
    "log-softmax": (
        made(lambda x: x.log_softmax(-1), lambda g, x: g - x.softmax(-1) * g.sum(-1, keepdim=True)),
        lambda x: x.log_softmax(-1),
    ),
    "gelu": (torch.nn.functional.gelu, torch.nn.functional.gelu),
    "layer norm": (lambda x: F.layer_norm(x, (4,)), lambda x: F.layer_norm(x, (4,))),
    "median": (lambda x: x.median(-1).values, lambda x: x.median(-1).values),
    "standard deviation": (lambda x: x.std(-1), lambda x: x.std(-1)),
    "sine": (made(torch.sin, lambda g, x: g * x.cos()), torch.sin),
    "sorted": (lambda x: x.sort(-1).values, lambda x: x.sort(-1).values),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_gradient_passes_with_a_reference(name):
    planted, reference = RIGHT[name]
    assert not findings("special-values", planted, positive if name in POSITIVE else one, reference)


POSITIVE = ("square root", "logarithm", "reciprocal")
# Compositions whose own gradient is NaN where a row is constant.
NAN_OF_PYTORCH = ("standard deviation",)


def positive(dtype=torch.float64):
    return (normal(3, 4, dtype=dtype).detach().abs().add(0.5).requires_grad_(),)


@pytest.mark.parametrize("name", [name for name in RIGHT if name not in NAN_OF_PYTORCH])
def test_a_right_gradient_passes_without_one(name):
    assert not findings("special-values", RIGHT[name][0], positive if name in POSITIVE else one)


def test_two_equal_arguments_are_tried():
    def distance(a, b):
        return (a - b).norm(dim=-1)

    def backward(g, a, b):
        towards = g[:, None] * (a - b) / (a - b).square().sum(-1, keepdim=True).sqrt()
        return towards, -towards

    def guarded(g, a, b):
        towards = g[:, None] * F.normalize(a - b, dim=-1)
        return towards, -towards

    for reference in (None, distance):
        (found, *_) = findings("special-values", made(distance, backward), pair, reference)
        assert "input 1 equal to input 0" in found.message
        assert not findings("special-values", made(distance, guarded), pair, reference)


def test_a_greater_of_two_may_choose_either():
    for chosen in (lambda a, b: a >= b, lambda a, b: a > b):
        larger = made(torch.maximum, lambda g, a, b, chosen=chosen: (g * chosen(a, b), g * ~chosen(a, b)))
        for reference in (None, torch.maximum):
            assert not findings("special-values", larger, pair, reference)


def test_a_matrix_that_is_symmetric_stays_so():
    def form(a, b):
        return (b * (a @ b)).sum(-2)

    def symmetric(dtype=torch.float64):
        a, b = (t.detach() for t in (normal(3, 3, dtype=dtype), normal(3, 4, dtype=dtype)))
        return (a + a.mT).requires_grad_(), b.requires_grad_()

    planted = made(form, lambda g, a, b: (b * g @ b.mT, 2 * (a @ b) * g))
    assert not findings("special-values", planted, symmetric)
    assert not findings("special-values", planted, symmetric, form)
    nan_at_zero = made(form, lambda g, a, b: (b * g @ b.mT, 2 * (a / a @ a @ b) * g * 0 + 2 * (a @ b) * g))
    assert findings("special-values", nan_at_zero, symmetric)


def test_a_scalar_tensor_may_be_among_the_arguments():
    def scaled():
        return normal(3, 4), torch.tensor(0.5, dtype=torch.float64)

    planted = made(lambda x, s: x * s, lambda g, x, s: (g * s, None))
    assert not findings("special-values", planted, scaled)
    assert not findings("special-values", planted, scaled, torch.mul)


def test_a_declared_surrogate_has_no_slope_to_be_held_against():
    straight = function(lambda ctx, x: x.round(), lambda ctx, g: g)
    assert not findings("special-values", straight, one, surrogate=True)
    assert not findings("special-values", straight, one, lambda x: x.round(), surrogate=True, surrogate_of=lambda x: x)


@pytest.mark.parametrize("name", ["11_nan_at_zero_norm", "12_all_masked_row"])
def test_the_faults_of_the_corpus_are_found(name):
    assert of_fault(name, {"special-values"})
