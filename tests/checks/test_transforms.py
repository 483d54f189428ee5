"""torch.func against plain autograd: grad, jacobians, transforms inside transforms."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome


def one(dtype=torch.float64):
    return (normal(4, dtype=dtype),)


def two(dtype=torch.float64):
    return normal(3, dtype=dtype), normal(3, dtype=dtype) + 1


def keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def cube(backward=None, jvp=None, **more):
    """x**3 in the style that torch.func takes, with a vmap rule generated."""
    methods = {"setup_context": keep_inputs} | ({"jvp": jvp} if jvp else {}) | more
    made = function(lambda x: x**3, backward or (lambda ctx, g: 3 * ctx.saved_tensors[0] ** 2 * g), "Cube", **methods)
    made.generate_vmap_rule = True
    return made


def right_jvp(ctx, t):
    return 3 * ctx.saved_tensors[0] ** 2 * t


# func-grad


def test_a_missing_setup_context_is_told():
    planted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    (found,) = findings("func-grad", planted, one)
    assert found.severity == "info"
    assert "setup_context is missing" in found.message
    assert "setup_context(ctx, inputs, output)" in found.fix


def test_the_fault_of_the_corpus_is_told():
    (found,) = of_fault("42_no_setup_context", ["func-grad"])
    assert (found.severity, found.where) == ("info", "transforms")


def test_a_missing_setup_context_behind_another_callable_is_told():
    planted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    assert "setup_context" in messages("func-grad", lambda x: planted.apply(x) + 1, one)[0]


def test_a_right_one_passes():
    assert findings("func-grad", cube(), one) == ()


def test_plain_operations_pass():
    assert findings("func-grad", lambda x, y: (x.sin() * y, x.cos()), two) == ()


def test_a_backward_that_knows_it_is_transformed_and_errs_is_found():
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        factor = (
            2
            if torch._C._functorch.is_gradtrackingtensor(x) or torch._C._functorch.is_functorch_wrapped_tensor(g)
            else 3
        )
        return factor * x**2 * g

    (found,) = findings("func-grad", cube(backward), one)
    assert found.severity == "error"
    assert found.where == "gradient 0"


def test_a_kernel_that_reads_memory_is_told_not_blamed():
    def by_numpy(x):
        return torch.from_numpy(x.detach().numpy() ** 3)

    planted = function(by_numpy, lambda ctx, g: g, setup_context=keep_inputs)
    found = findings("func-grad", planted, one)
    assert {each.severity for each in found} <= {"info"}


# jacobians


def test_jacobians_of_a_right_one_pass():
    assert findings("jacobians", cube(jvp=right_jvp), one) == ()


def test_jacobians_of_two_inputs_and_outputs_pass():
    assert findings("jacobians", lambda x, y: (x * y, (x + y).sum()), two) == ()


def test_a_backward_that_mixes_the_rows_of_a_batch_is_found_by_jacrev():
    class Sum(torch.autograd.Function):
        """x + x, whose backward calls another Function with a wrong vmap rule."""

        @staticmethod
        def forward(x):
            return x + x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return Twice.apply(g)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return 2 * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return 2 * g

        @staticmethod
        def vmap(info, in_dims, x):
            return 2 * x.flip(0), 0

    (found,) = findings("jacobians", Sum, one)
    assert "jacrev" in found.message


def test_without_torch_func_there_are_no_jacobians():
    planted = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    said = outcome("jacobians", planted, one)
    assert said.status == "n/a"
    assert "func-grad" in said.reason


# nested-transforms


def test_nested_transforms_of_a_right_one_pass():
    assert findings("nested-transforms", cube(), one) == ()


def test_plain_operations_are_not_looked_at():
    assert outcome("nested-transforms", lambda x: x**3, one).status == "n/a"


def test_forward_over_forward_through_a_jvp_is_told_to_be_a_limit_of_torch():
    (found,) = findings("nested-transforms", cube(jvp=right_jvp), one)
    assert found.severity == "info"
    assert "jacfwd(jacfwd(f)) is silently zero" in found.message
    assert "197867" in found.fix


def test_the_nested_fault_of_the_corpus_is_told():
    (found,) = of_fault("46_nested_jacfwd", ["nested-transforms"])
    assert "nested forward mode" in found.message


def test_a_jvp_that_detaches_is_found_where_a_derivative_of_it_is_taken():
    def jvp(ctx, t):
        return 3 * ctx.saved_tensors[0].detach() ** 2 * t

    found = findings("nested-transforms", cube(jvp=jvp), one)
    assert [each.severity for each in found if "jacrev(jacfwd(f))" in each.message] == ["error"]


def test_a_second_derivative_that_is_wrong_without_transforms_is_left_to_its_rule():
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0].detach() ** 2 * g

    said = outcome("nested-transforms", cube(backward), one)
    assert said.status == "n/a"
    assert "double-backward" in said.reason


@pytest.mark.parametrize("rule", ["func-grad", "jacobians", "nested-transforms"])
@pytest.mark.parametrize("name", ["ok_43_vmap_rule", "ok_44_jvp"])
def test_the_right_ones_of_the_corpus_have_no_error(rule, name):
    assert all(each.severity == "info" for each in of_fault(name, [rule]))
