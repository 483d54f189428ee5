"""Dtypes: what half types lose, where a sum stops growing, what overflows and what crashes."""

from __future__ import annotations

from dataclasses import replace

import faulty
import pytest
import torch

from autofn import Tolerance
from autofn.checks import dtypes, ranges
from autofn.checks.intent import Intent
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable

BY_ID = {rule.id: rule for rule in (*dtypes.RULES, *ranges.RULES)}


def function(forward, backward, save=lambda inputs, output: inputs):
    """A Function: forward(*inputs), backward(grad_output, *saved)."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output = forward(*inputs)
            ctx.save_for_backward(*save(inputs, output))
            return output

        @staticmethod
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Planted


def matrix(dtype=torch.float64):
    return (torch.randn(6, 5, dtype=dtype).requires_grad_(),)


def product(dtype=torch.float64):
    return torch.randn(8, 3, dtype=dtype).requires_grad_(), torch.randn(3, 2, dtype=dtype).requires_grad_()


def in_corpus(name, rule):
    """What a rule finds in tests/faults/<name>.py."""
    return judge(Job(BY_ID[rule], lambda: faulty.subject(name))).findings


def outcome(rule, given, make=matrix, reference=None, **intent):
    subject = of_callable(given, make, reference=reference, intent=Intent(**intent))
    return judge(Job(BY_ID[rule], lambda: subject))


def wide(compute):
    """The same computed in float32 at least, and rounded once."""

    def computed(*tensors):
        kind = torch.promote_types(tensors[0].dtype, torch.float32)
        return compute(*(t.to(kind) for t in tensors)).to(tensors[0].dtype)

    return computed


# Soft functions with their backward: right in every dtype.
def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rms_backward(g, x):
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    return r * (g - x * r.square() * (g * x).mean(-1, keepdim=True))


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.79788 * (x + 0.044715 * x**3)))


def gelu_backward(g, x):
    t = torch.tanh(0.79788 * (x + 0.044715 * x**3))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788 * (1 + 3 * 0.044715 * x**2))


def softmax_backward(g, y):
    return y * (g - (g * y).sum(-1, keepdim=True))


RIGHT = {
    "sin": (function(torch.sin, lambda g, x: g * x.cos()), matrix, torch.sin),
    "silu": (
        function(torch.nn.functional.silu, lambda g, x: g * x.sigmoid() * (1 + x * (1 - x.sigmoid()))),
        matrix,
        torch.nn.functional.silu,
    ),
    "softmax": (
        function(lambda x: x.softmax(-1), softmax_backward, lambda _, y: (y,)),
        matrix,
        lambda x: x.softmax(-1),
    ),
    "softmax by hand": (
        function(
            lambda x: (x - x.amax(-1, keepdim=True)).exp() / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True),
            softmax_backward,
            lambda _, y: (y,),
        ),
        matrix,
        lambda x: x.softmax(-1),
    ),
    "rms in float32": (function(wide(rms), wide(rms_backward)), matrix, rms),
    "gelu in float32": (function(wide(gelu), wide(gelu_backward)), matrix, gelu),
    "round": (function(lambda x: (x * 7).round() / 7, lambda g, x: g), matrix, lambda x: (x * 7).round() / 7),
    "product": (function(torch.matmul, lambda g, x, w: (g @ w.t(), x.t() @ g)), product, torch.matmul),
    "sum": (function(lambda x: x.sum(0), lambda g, x: g.expand(x.shape)), matrix, lambda x: x.sum(0)),
    "mean square": (
        function(lambda x: x.square().mean(), lambda g, x: g * x * (2 / x.numel())),
        matrix,
        lambda x: x.square().mean(),
    ),
    "scale": (
        function(lambda x, s: x * s, lambda g, x, s: (g * s, (g * x).sum(0))),
        lambda dtype=torch.float64: (
            torch.randn(6, 5, dtype=dtype).requires_grad_(),
            torch.randn(5, dtype=dtype).requires_grad_(),
        ),
        lambda x, s: x * s,
    ),
    "cumulative sum": (
        function(lambda x: x.cumsum(0), lambda g, x: g.flip(0).cumsum(0).flip(0)),
        matrix,
        lambda x: x.cumsum(0),
    ),
    "sinus of many turns": (
        function(lambda x: (100 * x).sin(), lambda g, x: 100 * g * (100 * x).cos()),
        matrix,
        lambda x: (100 * x).sin(),
    ),
}


@pytest.mark.parametrize("rule", BY_ID)
@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("alone", [False, True], ids=["reference", "alone"])
def test_right_functions_pass(rule, name, alone):
    given, make, reference = RIGHT[name]
    found = outcome(rule, given, make, None if alone else reference, surrogate=name == "round")
    assert [each for each in found.findings if each.severity != "info"] == []


def through(dtype):
    """Computed through another dtype where it is not float64."""
    return lambda t: t.to(dtype).to(t.dtype) if t.dtype != torch.float64 else t


IMPRECISE = {
    "half inside": (lambda x: through(torch.float16)(x).sin(), lambda g, x: g * x.cos(), "float32"),
    "half in the backward": (torch.sin, lambda g, x: through(torch.float16)(g * x.cos()), "float32"),
    "bfloat16 in the backward": (torch.sin, lambda g, x: through(torch.bfloat16)(g * x.cos()), "float32"),
    "quantised saving": (torch.sin, lambda g, x: g * through(torch.float8_e4m3fn)(x.cos()), "float32"),
    "scaled until it overflows": (torch.sin, lambda g, x: (g * 65536) * x.cos() / 65536, "float16"),
    "cancellation": (torch.sin, lambda g, x: ((x.cos() + 3000) - 3000) * g, "float16"),
}


@pytest.mark.parametrize("name", IMPRECISE)
@pytest.mark.parametrize("alone", [False, True], ids=["reference", "alone"])
def test_lost_precision_is_found(name, alone):
    forward, backward, dtype = IMPRECISE[name]
    found = outcome("low-precision", function(forward, backward), reference=None if alone else torch.sin)
    assert any(dtype in each.message for each in found.findings)
    assert found.status == "failed"


def test_a_declared_tolerance_is_what_counts():
    subject = of_callable(function(torch.sin, IMPRECISE["half inside"][1]), matrix, reference=torch.sin)
    strict = {torch.float32: Tolerance(0, 1e-12, "planted")}
    declared = replace(subject, tolerances=strict, dtypes=(torch.float32, torch.float64))
    assert judge(Job(BY_ID["low-precision"], lambda: declared)).status == "failed"
    assert judge(Job(BY_ID["low-precision"], lambda: subject)).status == "ok"


def in_turn(terms):
    """The sum over the first dimension, each partial sum rounded."""
    total = torch.zeros_like(terms[0])
    for each in terms.split(4):
        total = total + each.sum(0)
    return total


def chunked(g, x, w):
    grad = torch.zeros_like(w)
    for rows, grads in zip(x.split(4), g.split(4), strict=True):
        grad += rows.t() @ grads
    return g @ w.t(), grad


def chunked_in_float32(g, x, w):
    grad = torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32))
    for rows, grads in zip(x.split(4), g.split(4), strict=True):
        grad += rows.t() @ grads
    return g @ w.t(), grad.to(w.dtype)


def square_error(x):
    return x.square().sum(0)


@pytest.mark.parametrize("alone", [False, True], ids=["reference", "alone"])
def test_a_sum_in_a_half_type_that_stops_growing_is_found(alone):
    gradient = function(torch.matmul, chunked)
    found = outcome("precision-grows", gradient, product, None if alone else torch.matmul)
    assert {each.where for each in found.findings} == {"gradient of input 1"}
    output = function(lambda x: in_turn(x.square()), lambda g, x: 2 * g * x)
    found = outcome("precision-grows", output, matrix, None if alone else square_error)
    assert {each.where for each in found.findings} == {"output 0"}


@pytest.mark.parametrize("alone", [False, True], ids=["reference", "alone"])
def test_a_sum_in_float32_passes(alone):
    right = function(torch.matmul, chunked_in_float32)
    assert outcome("precision-grows", right, product, None if alone else torch.matmul).findings == ()


def test_a_fault_of_sizes_is_not_one_of_dtypes():
    def backward(g, x):
        return g * x.cos() if x.shape[0] < 100 else g

    found = outcome("precision-grows", function(torch.sin, backward), reference=torch.sin)
    assert found.findings == ()


OVERFLOWING = {
    "root mean square": (rms, rms_backward, lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], eps=1e-6)),
    "only in the backward": (wide(rms), rms_backward, wide(rms)),
    "cube": (gelu, gelu_backward, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    "naive softmax": (
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        lambda g, x: softmax_backward(g, x.exp() / x.exp().sum(-1, keepdim=True)),
        lambda x: x.softmax(-1),
    ),
    "naive logsumexp": (
        lambda x: x.exp().sum(-1).log(),
        lambda g, x: g[:, None] * x.softmax(-1),
        lambda x: x.logsumexp(-1),
    ),
    "naive softplus": (
        lambda x: (1 + x.exp()).log(),
        lambda g, x: g * x.sigmoid(),
        lambda x: torch.nn.functional.softplus(x, threshold=1e3),
    ),
    "exponentials in the backward": (
        torch.sigmoid,
        lambda g, x: g * x.exp() / (1 + x.exp()) ** 2,
        torch.sigmoid,
    ),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_an_intermediate_that_overflows_is_found(name):
    forward, backward, reference = OVERFLOWING[name]
    found = outcome("overflow", function(forward, backward), reference=reference)
    assert found.status == "failed"
    assert all("overflows" in each.message and each.fix for each in found.findings)


@pytest.mark.parametrize("name", ["root mean square", "cube"])
def test_the_same_computed_in_float32_passes(name):
    forward, backward, reference = OVERFLOWING[name]
    assert outcome("overflow", function(wide(forward), wide(backward)), reference=reference).findings == ()


def test_a_gradient_that_is_not_finite_beside_a_right_output_needs_no_reference():
    found = outcome("overflow", function(wide(gelu), gelu_backward))
    assert found.findings[0].where == "gradient of input 0"
    assert found.status == "failed"


def test_an_output_that_says_inf_for_huge_values_is_told_as_a_fact():
    norm = function(lambda x: x.square().sum(-1).sqrt(), lambda g, x: g[:, None] * x / x.norm(dim=-1, keepdim=True))
    found = outcome("overflow", norm, reference=lambda x: torch.linalg.vector_norm(x, dim=-1))
    assert {each.severity for each in found.findings} == {"info"}


def root_mean_square(x):
    return x.square().mean(-1).sqrt()


def of_root_mean_square(g, x):
    return g[:, None] * x / x.float().square().mean(-1, keepdim=True).sqrt().to(x.dtype) / x.shape[-1]


def test_an_output_no_larger_than_its_inputs_must_not_overflow():
    planted = function(root_mean_square, of_root_mean_square)
    for reference, severity in ((wide(root_mean_square), "error"), (None, "warning")):
        found = outcome("overflow", planted, reference=reference).findings
        assert severity in {each.severity for each in found if each.where == "output 0"}
    right = function(wide(root_mean_square), of_root_mean_square)
    for reference in (wide(root_mean_square), None):
        assert outcome("overflow", right, reference=reference).findings == ()


def test_an_output_that_overflows_needs_no_reference_to_be_told():
    forward, backward, _ = OVERFLOWING["naive logsumexp"]
    found = outcome("overflow", function(forward, backward))
    assert ("output 0", "warning") in {(each.where, each.severity) for each in found.findings}
    assert outcome("overflow", function(lambda x: x.logsumexp(-1), backward)).findings == ()


def mean_square_backward(g, x):
    return g * x * (2 / x.numel())


def test_a_sum_divided_by_the_number_at_its_end_overflows_over_thousands():
    planted = function(lambda x: x.square().sum() / x.numel(), mean_square_backward)
    for reference, severity in ((lambda x: x.square().mean(), "error"), (None, "warning")):
        (found,) = outcome("overflow", planted, reference=reference).findings
        assert (found.where, found.severity) == ("output 0", severity)
        assert "a sum overflows" in found.message
    for right in (lambda x: x.square().mean(), lambda x: (x.square() / x.numel()).sum()):
        for reference in (lambda x: x.square().mean(), None):
            assert outcome("overflow", function(right, mean_square_backward), reference=reference).findings == ()


def test_what_grows_with_the_size_may_leave_the_range():
    norm = function(lambda x: x.square().sum().sqrt(), lambda g, x: g * x / x.float().norm().to(x.dtype))
    for reference in (lambda x: torch.linalg.vector_norm(x), None):
        found = outcome("overflow", norm, reference=reference).findings
        assert [each for each in found if "a sum overflows" in each.message] == []


def over_norm(epsilon):
    """x over its norm and an epsilon: in float16, 1e-8 is 0."""

    def forward(x):
        return x / (x.norm(dim=-1, keepdim=True) + epsilon)

    def backward(g, x):
        norm = x.norm(dim=-1, keepdim=True)
        whole = norm + epsilon
        unit = torch.where(norm == 0, 0, x / norm)
        return g / whole - unit * (g * x).sum(-1, keepdim=True) / whole / whole

    return function(forward, backward)


def test_an_epsilon_that_is_zero_in_float16_is_found():
    reference = wide(lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8))
    for formula, severity in ((reference, "error"), (None, "warning")):
        (found,) = outcome("underflow", over_norm(1e-8), reference=formula).findings
        assert found.severity == severity
        assert "float16" in found.message
    right = outcome("underflow", over_norm(1e-3), reference=wide(lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-3)))
    assert right.findings == ()


def eye(g, x):
    return g @ torch.eye(5, dtype=torch.float64) * x.cos()


CRASHING = {
    "float64 constant in the backward": (torch.sin, eye, "backward"),
    "float32 buffer in the backward": (
        torch.sin,
        lambda g, x: (g if g.dtype == torch.float64 else g @ torch.eye(5)) * x.cos(),
        "backward",
    ),
    "float64 constant in the forward": (
        lambda x: (x @ torch.eye(5, dtype=torch.float64)).sin(),
        lambda g, x: g * x.cos(),
        "forward",
    ),
}


@pytest.mark.parametrize("name", CRASHING)
def test_a_dtype_that_only_the_forward_takes_is_found(name):
    forward, backward, stage = CRASHING[name]
    found = outcome("dtype-crash", function(forward, backward), reference=torch.sin)
    assert found.status == "failed"
    assert all(f"the {stage} raises" in each.message for each in found.findings)


def refuses(x):
    if x.dtype != torch.float64:
        raise TypeError(f"sin: x must be float64, got {x.dtype}")
    return x.sin()


@pytest.mark.parametrize("rule", BY_ID)
def test_a_forward_that_refuses_a_dtype_is_not_judged(rule):
    assert outcome(rule, function(refuses, lambda g, x: g * x.cos()), reference=torch.sin).findings == ()


@pytest.mark.parametrize("rule", BY_ID)
def test_complex_inputs_have_no_smaller_dtype_to_try(rule):
    def make():
        return (torch.randn(4, dtype=torch.complex128).requires_grad_(),)

    planted = function(torch.sin, lambda g, x: g * x.cos().conj())
    assert outcome(rule, planted, make, torch.sin).status == "n/a"


@pytest.mark.parametrize("rule", BY_ID)
def test_a_wrong_formula_is_not_told_again(rule):
    assert outcome(rule, function(torch.sin, lambda g, x: g * x), reference=torch.sin).findings == ()


@pytest.mark.parametrize("rule", ["low-precision", "precision-grows", "overflow"])
def test_a_random_function_is_not_judged(rule):
    planted = function(lambda x: x * torch.rand_like(x), lambda g, x: g * torch.rand_like(x))
    assert outcome(rule, planted).status == "n/a"


def test_the_corpus_fault_is_found():
    found = in_corpus("17_low_precision_accumulation", "precision-grows")
    assert {(each.severity, each.where) for each in found} == {("error", "gradient of input 1")}


@pytest.mark.parametrize("name", [name for name in faulty.NAMES if name.startswith("ok_")])
def test_the_correct_twins_pass(name):
    assert {found.severity for rule in BY_ID for found in in_corpus(name, rule)} <= {"info"}
