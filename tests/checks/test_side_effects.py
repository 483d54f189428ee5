"""A call changes nothing but its results."""

import random

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal

RULES = ("side-effects", "hook-fires-twice")


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def doing(forward=lambda: None, backward=lambda: None):
    """Twice the input, with something done in the forward and in the backward."""
    return function(lambda ctx, x: (forward(), 2 * x)[1], lambda ctx, g: (backward(), 2 * g)[1])


@pytest.mark.parametrize("rule_id", RULES)
@pytest.mark.parametrize("given", [doing(), torch.exp, torch.nn.Linear(5, 2, dtype=torch.float64)])
def test_a_call_without_effects_passes(rule_id, given):
    assert not findings(rule_id, given, one)


@pytest.mark.parametrize(
    ("effect", "named"),
    [
        (lambda: torch.set_default_dtype(torch.float64), "default dtype"),
        (lambda: torch.set_num_threads(3), "number of threads"),
        (lambda: torch.set_flush_denormal(True), "denormal"),
        (lambda: torch.autograd.set_detect_anomaly(True), "anomaly"),
    ],
)
def test_a_setting_that_stays_changed_is_named_and_set_back(effect, named):
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.is_anomaly_enabled()
    (found,) = findings("side-effects", doing(forward=effect), one)
    assert named in found.message
    assert found.where == "forward"
    (found,) = findings("side-effects", doing(backward=effect), one)
    assert (found.severity, found.where) == ("error", "backward")
    assert before == (torch.get_default_dtype(), torch.get_num_threads(), torch.is_anomaly_enabled())


def test_autocast_that_stays_on_after_the_forward_is_named():
    planted = doing(forward=lambda: torch.set_autocast_enabled("cpu", True))
    assert "autocast on the CPU" in messages("side-effects", planted, one)[0]
    assert not torch.is_autocast_enabled("cpu")


def test_a_grad_mode_that_stays_changed_is_named():
    def wrapped(x):
        torch.set_grad_enabled(True)
        return 2 * x

    assert "the grad mode" in messages("side-effects", wrapped, one)[0]


def test_a_setting_restored_by_a_context_manager_passes():
    def inner():
        with torch.autograd.set_detect_anomaly(True), torch.autocast("cpu"):
            pass

    assert not findings("side-effects", doing(inner, inner), one)


@pytest.mark.parametrize(
    ("seed", "named"), [(lambda: torch.manual_seed(0), "PyTorch's"), (lambda: random.seed(0), "Python's")]
)
def test_a_generator_that_is_seeded_is_named(seed, named):
    assert f"the forward seeds {named} generator" in messages("side-effects", doing(forward=seed), one)[0]
    assert f"the backward seeds {named} generator" in messages("side-effects", doing(backward=seed), one)[0]


def test_a_generator_restored_passes_and_one_that_is_drawn_from_too():
    def inner():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)

    assert not findings("side-effects", doing(inner, inner), one)
    assert not findings("side-effects", doing(forward=lambda: torch.rand(3)), one)


def test_an_argument_that_begins_to_require_grad_is_found():
    planted = function(lambda ctx, x, w: (w.requires_grad_(), x * w)[1], lambda ctx, g: (g, None))
    assert "requires_grad of an argument" in messages("side-effects", planted, lambda: (*one(), torch.ones(5)))[0]


def test_a_gradient_written_by_hand_is_found():
    weight = normal(5)
    weight.grad = torch.zeros_like(weight)

    def write():
        weight.grad += 1

    (found,) = findings("side-effects", doing(backward=write), one)
    assert "no argument" in found.where


def test_a_gradient_of_an_input_written_beside_what_is_returned_is_found():
    def backward(ctx, g):
        ctx.x.grad = 2 * g
        return 2 * g

    planted = function(lambda ctx, x: (setattr(ctx, "x", x), 2 * x)[1], backward)
    (found,) = findings("side-effects", planted, one)
    assert found.where == "input 0"


def rerun(accumulate):
    """A module run again within the backward; accumulate: how its parameters get their gradients."""

    def forward(ctx, module, x, *parameters):
        ctx.module = module
        ctx.save_for_backward(x)
        with torch.no_grad():
            return module(x)

    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            out = ctx.module(x)
        return accumulate(ctx.module, out, x, g)

    return function(forward, backward)


def linear():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = torch.nn.Linear(5, 2, dtype=torch.float64)
    return module, *one(), *module.parameters()


def by_backward(module, out, x, g):
    out.backward(g)
    return None, x.grad


def by_grad(module, out, x, g):
    return None, *torch.autograd.grad(out, (x, *module.parameters()), g)


def test_a_backward_within_the_backward_fires_hooks_for_each_use():
    (found,) = findings("hook-fires-twice", rerun(by_backward), lambda: linear()[:2])
    assert (found.severity, found.observed, found.expected) == ("error", "2 times", "once")
    assert ".grad of" in messages("side-effects", rerun(by_backward), lambda: linear()[:2])[0]


def test_gradients_that_are_returned_fire_hooks_once():
    assert not findings("side-effects", rerun(by_grad), linear)
    assert [each.severity for each in findings("hook-fires-twice", rerun(by_grad), linear)] == ["info"]


@pytest.mark.parametrize(
    ("name", "rule_id"),
    [
        ("39_captured_parameter", "side-effects"),
        ("58_ddp_marked_twice", "hook-fires-twice"),
        ("58_ddp_marked_twice", "side-effects"),
    ],
)
def test_a_fault_of_the_field_is_found(name, rule_id):
    assert any(found.severity == "error" for found in of_fault(name, {rule_id}))
