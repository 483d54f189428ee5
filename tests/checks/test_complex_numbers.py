"""Complex numbers: conjugated, real for a real input; refused is fine, and taken by chance is a fact to know."""

from __future__ import annotations

import faulty
import pytest
import torch

from autofn.checks.complex_numbers import RULES, SPEAKS
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable

RULE = RULES[0]


def function(forward, backward):
    """A Function: forward(*inputs), backward(grad_output, *inputs). This module speaks of complex numbers."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Planted


def one(dtype=torch.float64):
    return (torch.randn(4, dtype=dtype).requires_grad_(),)


def two(dtype=torch.float64):
    return torch.randn(4, dtype=dtype).requires_grad_(), torch.randn(4, dtype=dtype).requires_grad_()


def complexes(dtype=torch.complex128):
    return (torch.randn(4, dtype=torch.complex128).requires_grad_(),)


def outcome(given, make, reference=None):
    return judge(Job(RULE, lambda: of_callable(given, make, reference=reference)))


def unit(z):
    return z / z.abs()


def product(a, b):
    return a * b


def magnitude(z):
    return z.real**2 + z.imag**2


WRONG = {
    "product": (product, lambda g, a, b: (g * b, g * a), two),
    "only one factor": (product, lambda g, a, b: (g * b.conj(), g * a), two),
    "exp": (torch.exp, lambda g, z: g * z.exp(), one),
    "reciprocal": (torch.reciprocal, lambda g, z: -g / z**2, one),
    "real part only": (torch.sin, lambda g, z: (g * z.cos().conj()).real + 0j, complexes),
    "imaginary part lost": (torch.sin, lambda g, z: torch.complex((g * z.cos().conj()).real, 0 * g.real), complexes),
    "half of it": (magnitude, lambda g, z: g * z, complexes),
    "conjugate of it": (magnitude, lambda g, z: 2 * g * z.conj(), complexes),
    "abs without its phase": (torch.abs, lambda g, z: g * torch.ones_like(z), complexes),
    "real without the zero": (torch.real, lambda g, z: torch.complex(g, g), complexes),
    "imag as if it were real": (torch.imag, lambda g, z: torch.complex(g, torch.zeros_like(g)), complexes),
    "holomorphic rule for unit": (unit, lambda g, z: g / z.abs(), complexes),
    "conjugate view misread": (
        torch.sin,
        lambda g, z: torch.view_as_complex(torch.view_as_real(g.conj() if g.is_conj() else g)) * z.cos().conj(),
        complexes,
    ),
}
RIGHT = {
    "product": (product, lambda g, a, b: (g * b.conj(), g * a.conj()), two),
    "exp": (torch.exp, lambda g, z: g * z.exp().conj(), one),
    "sin": (torch.sin, lambda g, z: g * z.cos().conj(), complexes),
    "sum": (lambda z: z.sum(), lambda g, z: g.expand(z.shape), one),
    "magnitude": (magnitude, lambda g, z: 2 * g * z, complexes),
    "abs": (torch.abs, lambda g, z: g * unit(z), complexes),
    "real": (torch.real, lambda g, z: torch.complex(g, torch.zeros_like(g)), complexes),
    "polar": (
        lambda angle: torch.polar(torch.ones_like(angle), angle),
        lambda g, angle: (g * (1j * torch.polar(torch.ones_like(angle), angle)).conj()).real,
        one,
    ),
}


# gradcheck hands in no conjugate view.
ONLY_BESIDE_A_REFERENCE = {"conjugate view misread"}


@pytest.mark.parametrize(
    ("name", "alone"),
    [(name, alone) for name in WRONG for alone in (False, True) if not (alone and name in ONLY_BESIDE_A_REFERENCE)],
)
def test_a_wrong_complex_gradient_is_found(name, alone):
    forward, backward, make = WRONG[name]
    found = outcome(function(forward, backward), make, None if alone else forward)
    assert found.status == "failed"
    assert all(each.fix for each in found.findings)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("alone", [False, True], ids=["reference", "alone"])
def test_a_right_complex_gradient_passes(name, alone):
    forward, backward, make = RIGHT[name]
    found = outcome(function(forward, backward), make, None if alone else forward)
    assert found.status == "ok"
    assert {each.severity for each in found.findings} <= {"info"}


def test_a_missing_conjugate_is_named():
    (found,) = outcome(function(torch.exp, WRONG["exp"][1]), one, torch.exp).findings
    assert "not conjugated" in found.message


def test_a_complex_gradient_for_a_real_argument_beside_a_complex_one_is_told_as_a_fact():
    (found,) = outcome(function(product, RIGHT["product"][1]), two, product).findings
    assert found.severity == "info"
    assert "real" in found.message


def test_a_real_argument_beside_a_complex_one_that_is_given_is_an_error():
    def mixed(dtype=torch.float64):
        return torch.randn(4, dtype=torch.float64).requires_grad_(), *complexes()

    wrong = function(product, lambda g, a, b: (g * b.conj(), g * a))
    right = function(product, lambda g, a, b: ((g * b.conj()).real, g * a))
    assert outcome(wrong, mixed, product).status == "failed"
    assert outcome(right, mixed, product).findings == ()


def test_a_module_that_never_speaks_of_complex_numbers_has_promised_nothing():
    (found,) = judge(Job(RULE, lambda: faulty.subject("ok_43_vmap_rule"))).findings
    assert found.severity == "info"


@pytest.mark.parametrize(
    "text", ["torch.complex64", "z.conj()", "x.is_complex()", "for complex inputs", "complex-valued"]
)
def test_words_that_speak_of_complex_numbers(text):
    assert SPEAKS.search(text)


@pytest.mark.parametrize("text", ["a complex model", "the complexity", "conjunction", "imagine", "real inputs"])
def test_words_that_do_not(text):
    assert not SPEAKS.search(text)


def refuses(x):
    if x.is_complex():
        raise TypeError("exp: x must be real")
    return x.exp()


def test_a_function_that_refuses_complex_numbers_is_not_judged():
    assert outcome(function(refuses, lambda g, x: g * x.exp()), one, torch.exp).status == "n/a"
    assert outcome(function(refuses, lambda g, x: g * x.exp()), one).status == "n/a"


def test_a_forward_that_means_something_else_for_complex_numbers_is_not_judged():
    planted = function(lambda x: x.square().sum(), lambda g, x: 2 * g * x)
    assert outcome(planted, one, lambda x: x.norm() ** 2).status == "n/a"


def test_a_gradient_that_is_wrong_for_real_numbers_is_not_told_again():
    assert outcome(function(torch.exp, lambda g, x: g * x), one, torch.exp).status == "n/a"


def test_the_corpus_fault_is_found():
    (found,) = judge(Job(RULE, lambda: faulty.subject("51_missing_conjugate"))).findings
    assert found.severity == "error"
    assert "not conjugated" in found.message


@pytest.mark.parametrize("name", [name for name in faulty.NAMES if name.startswith("ok_")])
def test_the_correct_twins_pass(name):
    assert {found.severity for found in judge(Job(RULE, lambda: faulty.subject(name))).findings} <= {"info"}
