"""Custom operators: schema, fake kernel, registration of the gradient."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, normal, outcome

LIB = torch.library.Library("autofn_tests_operators", "DEF")


def operator(name, kernel, fake=None, schema="(Tensor x) -> Tensor"):
    """An operator of one tensor, and a Function that calls it."""
    LIB.define(name + schema)
    LIB.impl(name, kernel, "CPU")
    if fake is not None:
        LIB.impl(name, fake, "Meta")
    called = getattr(torch.ops.autofn_tests_operators, name)
    return function(lambda ctx, x: called(x), lambda ctx, g: 2 * g)


def matrix(dtype=torch.float64):
    return (normal(3, 4, dtype=dtype),)


def clobber(x):
    y = x * 2
    x.zero_()
    return y


def by_columns(x):
    return (x * 2).mT.contiguous().mT


WRONG = {
    "writes to its argument": operator("writes", clobber, torch.empty_like),
    "returns its argument": operator("returns", lambda x: x, torch.empty_like),
    "returns a view": operator("views", lambda x: x.reshape(-1)[:3], lambda x: x.new_empty(3)),
    "other strides": operator("strides", by_columns, lambda x: x.new_empty(x.shape)),
    "other shape": operator("shape", lambda x: x.sum(0), lambda x: x.new_empty(x.shape)),
    "other dtype for bfloat16": operator(
        "dtype", lambda x: x * 2, lambda x: x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, torch.float32))
    ),
    "other strides for columns": operator("columns", lambda x: x.contiguous() * 2, lambda x: torch.empty_like(x)),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_operator_is_an_error(fault):
    inputs = matrix
    planted = WRONG[fault]
    (found,) = findings("opcheck", planted, inputs)
    assert found.severity == "error"
    assert found.where.startswith("autofn_tests_operators.")
    assert found.fix


@pytest.mark.parametrize(
    ("fault", "words"),
    [("54_custom_op_wrong_fake", "fake kernel"), ("55_custom_op_undeclared_mutation", "schema")],
)
def test_the_faults_of_the_corpus_are_errors(fault, words):
    (found,) = of_fault(fault, ["opcheck"])
    assert found.severity == "error"
    assert words in found.message


def test_a_gradient_registered_below_autograd_is_an_error():
    inner = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    LIB.define("below(Tensor x) -> Tensor")
    LIB.impl("below", lambda x: inner.apply(x), "CPU")
    LIB.impl("below", lambda x: x.new_empty(x.shape), "Meta")
    (found,) = findings("opcheck", torch.ops.autofn_tests_operators.below.default, matrix)
    assert found.severity == "error"
    assert "its gradient is not registered where autograd looks for it" in found.message


def test_a_missing_fake_kernel_is_a_warning():
    (found,) = findings("opcheck", operator("without", lambda x: x * 2), matrix)
    assert found.severity == "warning"
    assert "no fake kernel" in found.message


def test_a_right_operator_passes():
    planted = operator("right", lambda x: x.contiguous() * 2, lambda x: x.new_empty(x.shape))
    assert findings("opcheck", planted, matrix) == ()


def test_a_declared_mutation_passes():
    def write(x, out):
        out.copy_(x * 2)

    LIB.define("fill(Tensor x, Tensor(a!) out) -> ()")
    LIB.impl("fill", write, "CPU")
    LIB.impl("fill", lambda x, out: None, "Meta")

    def forward(ctx, x):
        out = torch.empty_like(x)
        torch.ops.autofn_tests_operators.fill(x, out)
        return out

    assert findings("opcheck", function(forward, lambda ctx, g: 2 * g), matrix) == ()


def test_an_operator_of_the_backward_is_looked_at_too():
    LIB.define("of_the_backward(Tensor x) -> Tensor")
    LIB.impl("of_the_backward", lambda x: x, "CPU")
    LIB.impl("of_the_backward", torch.empty_like, "Meta")
    planted = function(lambda ctx, x: x * 1, lambda ctx, g: torch.ops.autofn_tests_operators.of_the_backward(g))
    (found,) = findings("opcheck", planted, matrix)
    assert "of_the_backward" in found.where


def test_without_custom_operators_there_is_nothing_to_check():
    assert outcome("opcheck", lambda x: x * 2, matrix).status == "n/a"


def test_a_gradient_that_compiled_code_does_not_see_is_an_error():
    inner = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    LIB.define("unseen(Tensor x) -> Tensor")
    LIB.impl("unseen", lambda x: inner.apply(x), "CPU")
    LIB.impl("unseen", lambda x: x.new_empty(x.shape), "Meta")
    (found,) = findings("opcheck-dispatch", torch.ops.autofn_tests_operators.unseen.default, matrix)
    assert found.severity == "error"


def test_a_right_operator_compiles_for_any_sizes():
    planted = operator("any_sizes", lambda x: x * 2, lambda x: x.new_empty(x.shape))
    assert findings("opcheck-dispatch", planted, matrix) == ()
