"""What a Function returns, and the weights that stand for its outputs' gradients."""

import pytest
import torch
from planted.written import findings, function, normal, outcome

from autofn import checks
from autofn.checks.subject import of_callable

QUICK = [rule.id for rule in checks.rules() if rule.level == "quick" and not rule.id.startswith(("timing-", "cuda-"))]


def one(dtype=torch.float64):
    return (normal(3, 4, dtype=dtype),)


def square_and_nothing(ctx, x):
    ctx.save_for_backward(x)
    return x * x, None


def composed(x):
    return x * x, None


@pytest.mark.parametrize("rule", QUICK)
@pytest.mark.parametrize("reference", [None, composed], ids=["alone", "reference"])
def test_an_output_may_be_none(rule, reference):
    planted = function(square_and_nothing, lambda ctx, g, nothing: 2 * ctx.saved_tensors[0] * g)
    found = outcome(rule, planted, one, reference)
    assert not [each for each in found.findings if each.severity != "info"]
    assert "NoneType" not in found.reason


def test_a_wrong_gradient_beside_none_is_found():
    planted = function(square_and_nothing, lambda ctx, g, nothing: ctx.saved_tensors[0] * g)
    for reference in (None, composed):
        assert findings("gradient", planted, one, reference)


def passing_on(ctx, *tensors):
    ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
    return tensors


def test_a_weight_does_not_hang_on_the_other_outputs():
    def two(dtype=torch.float64):
        return normal(3, 4, dtype=dtype), normal(3, dtype=dtype)

    planted = function(passing_on, lambda ctx, *grads: grads)
    assert not findings("needs-input-grad", planted, two)
    subject = of_callable(planted, two)
    first, second = subject.inputs()
    both = subject.grad_outputs(subject.call((first, second)))
    alone = subject.grad_outputs(subject.call((first.detach(), second)))
    assert alone[0] is None
    assert torch.equal(alone[1], both[1])
