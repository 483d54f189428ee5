"""The error of a case is what the formula in float64 says that it is."""

from __future__ import annotations

import math

import pytest
import torch
from support import case_of, make_spec

from autofn.observe.accuracy import error


class Doubled(torch.autograd.Function):
    """Wrong by a hundredth in the forward, by a tenth in the backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 1.01

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x * 2.2


def test_what_is_planted_is_what_is_found():
    found = error(make_spec(), case_of(Doubled.apply))
    assert found["forward"] == pytest.approx(0.01, rel=1e-3)
    assert found["backward"] == pytest.approx(0.1, rel=1e-3)


def test_the_truth_has_no_error_and_float32_has_roundings():
    spec = make_spec()
    assert error(spec, case_of(dtype="float64")) == {"forward": 0.0, "backward": 0.0}
    found = error(spec, case_of(dtype="float32"))
    assert 0 < found["forward"] < torch.finfo(torch.float32).eps


@pytest.mark.parametrize(("wrong", "expected"), [(math.nan, math.inf), (math.inf, math.inf)])
def test_what_is_not_finite_is_infinitely_wrong(wrong, expected):
    assert error(make_spec(), case_of(lambda x: x * x + x.detach() * 0 + wrong))["forward"] == expected


def test_a_truth_of_zeros_is_met_or_missed():
    spec = make_spec(reference=lambda x: x * 0)
    assert error(spec, case_of(lambda x: x * 0, spec))["forward"] == 0.0
    assert error(spec, case_of(lambda x: x * 0 + 1e-30, spec))["forward"] == math.inf


def test_where_the_truth_is_not_finite_nothing_is_asked():
    spec = make_spec(reference=lambda x: x / torch.where(x > 0, 1.0, 0.0))
    assert error(spec, case_of(lambda x: torch.where(x > 0, x, x.detach()), spec))["forward"] == 0.0


def test_a_surrogate_is_the_truth_of_the_gradients():
    spec = make_spec(reference=torch.round, surrogate=lambda x: x)
    found = error(spec, case_of(lambda x: x + (torch.round(x) - x).detach(), spec))
    assert found["backward"] == 0.0
