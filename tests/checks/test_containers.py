"""Tensors that autograd does not see."""

from types import SimpleNamespace

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome

SCALE = torch.full((4,), 1.5, dtype=torch.float64, requires_grad=True)
CONSTANT = torch.full((4,), 1.5, dtype=torch.float64)
MODEL = torch.nn.Linear(4, 4, dtype=torch.float64)
HOLDER = SimpleNamespace(scale=SCALE)


def total(x, weights):
    return sum(w * x for w in torch.utils._pytree.tree_leaves(weights))


def sums(ctx, x, weights):
    ctx.weights = weights
    return total(x, weights)


def to_the_first(ctx, g):
    return total(g, ctx.weights), None


def contained(into):
    return lambda: (normal(4), into([normal(4), 2 * normal(4).detach()]))


@pytest.mark.parametrize("into", [list, tuple, lambda ws: dict(enumerate(ws)), lambda ws: [[ws[0]], {"w": ws[1]}]])
def test_a_tensor_in_a_container_is_found(into):
    planted = function(sums, to_the_first)
    for reference in (None, total):
        (found,) = findings("hidden-tensor", planted, contained(into), reference)
        assert found.where.startswith("argument 1 (")


def test_a_container_that_is_unpacked_is_right():
    unpacked = function(lambda ctx, x, *weights: sums(ctx, x, weights), lambda ctx, g: (total(g, ctx.weights), g, None))
    said = outcome("hidden-tensor", lambda x, weights: unpacked.apply(x, *weights), contained(list))
    assert not said.findings


def test_tensors_without_gradient_may_be_in_a_container():
    planted = function(sums, to_the_first)
    assert not outcome("hidden-tensor", planted, lambda: (normal(4), [CONSTANT, CONSTANT])).findings


def one():
    return (normal(4),)


def by_global(ctx, x):
    return x * SCALE


def by_data(ctx, x):
    return x * SCALE.data


def by_numpy(ctx, x):
    return x * torch.from_numpy(SCALE.detach().numpy())


def by_attribute(ctx, x):
    return x * HOLDER.scale


def by_closure(scale):
    return lambda ctx, x: x * scale


def scaled(ctx, g):
    return g * 1.5


@pytest.mark.parametrize("forward", [by_global, by_data, by_numpy, by_attribute, by_closure(SCALE)])
def test_a_captured_tensor_is_found(forward):
    (found,) = findings("captured-tensor", function(forward, scaled), one)
    assert found.severity == "error"


def test_a_captured_tensor_is_named():
    assert findings("captured-tensor", function(by_global, scaled), one)[0].where == "Planted: SCALE"


def test_a_tensor_on_the_class_is_found():
    planted = function(lambda ctx, x: x * planted.scale, scaled)
    planted.scale = SCALE
    assert findings("captured-tensor", planted, one)[0].where == "Planted.scale"


def run(ctx, module, x):
    ctx.save_for_backward(x)
    ctx.module = module
    return module(x)


def run_again(ctx, g):
    """Re-enters autograd, as reversible networks do."""
    x = ctx.saved_tensors[0].detach().requires_grad_()
    with torch.enable_grad():
        out = ctx.module(x)
    torch.autograd.backward(out, g)
    return None, x.grad


@pytest.mark.parametrize("argument", [MODEL, MODEL.forward])
def test_the_parameters_of_a_module_that_is_an_argument_are_found(argument):
    found = findings("captured-tensor", function(run, run_again), lambda: (argument, normal(2, 4)))
    assert [each.where for each in found] == ["argument 0: parameter weight", "argument 0: parameter bias"]


def test_a_global_module_is_found():
    planted = function(lambda ctx, x: MODEL(x), lambda ctx, g: g @ MODEL.weight.detach())
    found = findings("captured-tensor", planted, lambda: (normal(2, 4),))
    assert [each.where for each in found] == ["Planted: MODEL: parameter weight", "Planted: MODEL: parameter bias"]


def test_a_recomputation_inside_the_forward_is_no_capture():
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.out = ctx.x.exp() * 2
        return ctx.out.detach()

    planted = function(forward, lambda ctx, g: torch.autograd.grad(ctx.out, ctx.x, g))
    assert not findings("captured-tensor", planted, one)


@pytest.mark.parametrize("forward", [lambda ctx, x: x * CONSTANT, by_closure(CONSTANT), lambda ctx, x: x * 1.5])
def test_a_constant_may_be_captured(forward):
    assert not findings("captured-tensor", function(forward, scaled), one)


def test_a_parameter_that_is_an_argument_is_right():
    planted = function(lambda ctx, x, s: ctx.save_for_backward(x, s) or x * s, lambda ctx, g: (g * SCALE, g))
    assert not findings("captured-tensor", lambda x: planted.apply(x, SCALE), one)


def test_a_tensor_that_only_lends_its_shape_is_right():
    assert not findings("captured-tensor", function(lambda ctx, x: x * 1.5 + 0 * SCALE.shape[0], scaled), one)


def test_what_the_reference_cuts_off_too_is_meant():
    assert not findings("captured-tensor", function(by_global, scaled), one, lambda x: x * SCALE.detach())
    assert findings("captured-tensor", function(by_global, scaled), one, lambda x: x * SCALE)


def test_looking_leaves_the_captured_tensor_as_it_was():
    before = SCALE.detach().clone()
    findings("captured-tensor", function(by_global, scaled), one)
    assert torch.equal(SCALE, before)
    assert SCALE.grad is None


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("38_tensors_in_a_list", "hidden-tensor"),
        ("39_captured_parameter", "captured-tensor"),
        ("58_ddp_marked_twice", "captured-tensor"),
    ],
)
def test_the_corpus_faults_are_found(name, rule):
    assert of_fault(name, [rule])


@pytest.mark.parametrize("name", ["ok_24_saves_none", "ok_43_vmap_rule", "ok_48_dropout_saved_mask"])
def test_the_right_twins_pass(name):
    assert not of_fault(name, ["hidden-tensor", "captured-tensor"])
