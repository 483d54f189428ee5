"""CUDA: where there is none, the rules say so; what they share is tested without one."""

import pytest
import torch
from planted.written import normal, outcome

from autofn.checks import cuda_rules
from autofn.checks.rule import Finding
from autofn.checks.subject import of_callable
from autofn.checks.tools.pure import pure

RULES = [rule.id for rule in cuda_rules.RULES]


def one(dtype=torch.float64):
    return (normal(4, dtype=dtype),)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("rule", RULES)
def test_without_a_device_the_rules_say_so(rule):
    said = outcome(rule, lambda x: x * 2, one)
    assert (said.status, said.reason) == ("n/a", "no CUDA device")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("rule", RULES)
def test_plain_operations_pass(rule):
    from autofn.checks.runner import Job, judge

    (chosen,) = (each for each in cuda_rules.RULES if each.id == rule)
    said = judge(Job(chosen, lambda: of_callable(lambda x: x.sin() * x, one, device="cuda")))
    assert said.findings == ()


def test_results_are_outputs_and_gradients():
    function = pure(of_callable(lambda x: x * 2, one))
    output, gradient = cuda_rules._forward_backward(function, function.leaves())
    assert torch.equal(output, 2 * function.leaves()[0])
    assert torch.equal(gradient, 2 * function.weights[0])


def test_two_calls_that_differ_are_not_judged():
    calls = []

    def drifting(x):
        calls.append(0)
        return x * len(calls)

    with pytest.raises(NotImplementedError, match="two calls differ"):
        cuda_rules._expected(pure(of_callable(drifting, one)))


def test_what_differs_is_named():
    function = pure(of_callable(lambda x: x * 2, one))
    want = cuda_rules._expected(function)
    (found,) = cuda_rules._compared(function, "on a side stream", [want[0], want[1] + 1], want, "the way out")
    assert isinstance(found, Finding)
    assert (found.where, found.fix) == ("gradient 0", "the way out")
    assert "on a side stream" in found.message
