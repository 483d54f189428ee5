"""torch.compile: breaks, values, recompilations."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome

pytestmark = pytest.mark.slow


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def scaled(dtype=torch.float64):
    return normal(5, dtype=dtype), 2.0


def keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*[t for t in inputs if isinstance(t, torch.Tensor)])


def cube(backward=None):
    return function(
        lambda x: x**3, backward or (lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g), setup_context=keep_inputs
    )


def unlike_eager(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


def test_a_break_is_named():
    def forward(ctx, x):
        torch._dynamo.graph_break()
        return x * 2

    (found,) = findings("compile-graph", function(forward, lambda ctx, g: g * 2), one)
    assert found.severity == "info"
    assert "the graph breaks" in found.message


def test_one_graph_passes():
    assert findings("compile-graph", cube(), one) == ()


def test_values_unlike_those_of_eager_mode_are_an_error():
    (found,) = findings("compile-values", unlike_eager, one)
    assert found.severity == "error"
    assert found.where == "output 0"


def test_a_gradient_unlike_that_of_eager_mode_is_an_error():
    planted = function(lambda ctx, x: x * 3, lambda ctx, g: unlike_eager(g))
    (found,) = findings("compile-values", planted, one)
    assert found.where == "gradient 0"


def test_the_fault_of_the_corpus_is_an_error():
    (found,) = of_fault("45_compile_drops_backward", ["compile-values"])
    assert found.severity == "error"
    assert "torch.func.grad" in found.message


SURROGATES = {
    "straight through": (lambda x: x.round(), lambda ctx, g: g),
    "reversed": (lambda x: x.view_as(x), lambda ctx, g: -g),
}


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize(("declared", "severity"), [(True, "info"), (False, "error")])
def test_a_surrogate_that_is_lost_is_told_and_an_error_only_where_it_is_not_declared(name, declared, severity):
    forward, backward = SURROGATES[name]
    planted = function(forward, backward, setup_context=lambda ctx, inputs, output: None)
    (found,) = findings("compile-values", planted, one, surrogate=declared)
    assert found.severity == severity
    assert "torch.func.grad for the given inputs" in found.message
    assert "PyTorch's derivative" in found.message


def test_a_declared_surrogate_wrong_in_plain_compiled_code_is_still_an_error():
    planted = function(lambda ctx, x: x.round(), lambda ctx, g: unlike_eager(g))
    assert {each.severity for each in findings("compile-values", planted, one, surrogate=True)} == {"error"}


def test_another_subgradient_at_a_corner_is_only_told():
    planted = function(
        lambda x: x.clamp(min=0), lambda ctx, g: g * (ctx.saved_tensors[0] > 0), setup_context=keep_inputs
    )
    assert all(each.severity == "info" for each in findings("compile-values", planted, one))


def test_right_values_pass():
    assert findings("compile-values", cube(), one) == ()
    assert findings("compile-values", lambda x: x.softmax(-1), one) == ()


def test_an_argument_written_to_with_the_result_thrown_away_passes():
    assert of_fault("ok_34_mark_dirty", ["compile-values"]) == []


def test_a_graph_for_each_number_is_a_warning():
    def forward(ctx, x, k):
        ctx.k = int(str(k).replace(".", "")[:1])
        return x * ctx.k

    (found,) = findings("recompilation", function(forward, lambda ctx, g: (g * ctx.k, None)), scaled)
    assert found.severity == "warning"
    assert found.where == "input 1"


def test_numbers_that_are_variables_pass():
    def forward(ctx, x, k):
        ctx.k = k
        return x * k

    assert findings("recompilation", function(forward, lambda ctx, g: (g * ctx.k, None)), scaled) == ()


def test_a_counter_that_compiles_every_call_anew_is_told():
    calls = []

    def forward(ctx, x):
        calls.append(len(calls))
        return x * 2 + len(calls)

    (found,) = findings("recompilation", function(forward, lambda ctx, g: g * 2), one)
    assert found.severity == "info"
    assert "the same call is compiled again" in found.message


def test_a_random_one_is_not_compared():
    assert outcome("compile-values", lambda x: x * torch.rand_like(x), one).status == "n/a"
