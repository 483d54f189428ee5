"""What a benchmark must heed is told of a Function that is right; a set-up that spoils times is a warning."""

from __future__ import annotations

import time

import pytest
import torch

from autofn.checks import rules, timing_notes
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable

RULES = {rule.id: rule for rule in rules()}


def found(rule, function, make_inputs):
    outcome = judge(Job(RULES[f"timing-{rule}"], lambda: of_callable(function, make_inputs)))
    return [(finding.severity, str(finding)) for finding in outcome.findings]


def numbers(dtype=torch.float64):
    return (torch.linspace(0.5, 2, 12, dtype=dtype).reshape(3, 4).requires_grad_(),)


def test_a_table_made_once_a_size_is_told_and_no_table_is_not():
    tables = {}

    def scaled(x):
        if x.shape not in tables:
            tables[x.shape] = sum(torch.cos(torch.ones_like(x) * k).detach() for k in range(20))
        return x * tables[x.shape]

    ((severity, message),) = found("first-call", scaled, numbers)
    assert severity == "info"
    assert "the first call at a new size sets something up" in message
    assert found("first-call", torch.exp, numbers) == []


def test_denormal_inputs_are_a_warning():
    ((severity, message),) = found("denormals", torch.exp, lambda: (torch.tensor([1.0, 1e-310], dtype=torch.float64),))
    assert severity == "warning"
    assert "inputs [0] hold denormal numbers" in message
    assert found("denormals", lambda x: x + 1, numbers) == []


@pytest.mark.parametrize(("seconds", "calls"), [(60.0, 18), (0.01, 2)])
def test_a_slow_function_is_called_once_on_either_numbers(monkeypatch, seconds, calls):
    monkeypatch.setattr(timing_notes, "TURNS_S", seconds)
    made = []

    def slow(x):
        made.append(time.sleep(0.011))
        return x * 2

    assert found("denormals", slow, numbers) == []
    assert len(made) == calls


def test_square_matrices_are_not_made_too_large_for_the_memory():
    def square():
        return (torch.linspace(0.5, 2, 16, dtype=torch.float64).reshape(4, 4).requires_grad_(),)

    outcome = judge(Job(RULES["timing-denormals"], lambda: of_callable(torch.exp, square)))
    assert outcome.reason == "no dimension can have another size"


@pytest.mark.parametrize(("asked", "severity"), [("100000", "warning"), ("1", "info")])
def test_more_threads_than_cores_are_a_warning(monkeypatch, asked, severity):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert [each for each, _ in found("threads", torch.exp, numbers)] == [severity]


def test_inputs_that_could_have_a_gradient_and_have_none_are_named():
    def make(dtype=torch.float64):
        return (*numbers(dtype), torch.ones(4, dtype=dtype), 3)

    ((_, message),) = found("gradients", lambda x, w, n: x * w * n, make)
    assert message == "gradients are requested for inputs [0]; inputs [1] could have one and do not require grad"


def test_a_gradient_that_accumulates_is_a_multiple():
    ((_, message),) = found("accumulation", torch.exp, numbers)
    assert ".grad is 2 times the gradient" in message


def test_storages_are_counted_once_and_the_callers_own_apart():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x.view(-1), x + 1)
            return x * 2

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * 2

    ((_, message),) = found("saved", Twice.apply, numbers)
    assert message == (
        "3 tensors are saved in 2 storages: 96 bytes are new, 96 are those of inputs and outputs; "
        "adding up the tensors gives 288"
    )


def test_data_that_leave_the_cache_are_not_told():
    ((_, message),) = found("caches", torch.exp, numbers)
    assert message.startswith("inputs and outputs are 192 bytes and stay in a cache of ")
    assert found("caches", torch.neg, lambda: (torch.zeros(1 << 26),)) == []
