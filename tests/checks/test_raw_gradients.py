"""Raw gradients: dtype, device and shape as the backward returned them, before the engine repairs them."""

from __future__ import annotations

import faulty
import pytest
import torch

from autofn import registry
from autofn.checks.raw_gradients import RULES
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_callable, of_variant

BY_ID = {rule.id: rule for rule in RULES}


def scale(backward):
    """x of shape (4, 3) times w of shape (3,), with backward(grad_output, x, w)."""

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, w):
            ctx.save_for_backward(x, w)
            return x * w * factor

        @staticmethod
        def backward(ctx, grad_output):
            grad_x, grad_w = backward(grad_output, *ctx.saved_tensors)
            return grad_x, None, grad_w

    return Scale


def make(dtype=torch.float64):
    return torch.randn(4, 3, dtype=dtype).requires_grad_(), 1, torch.randn(3, dtype=dtype).requires_grad_()


def right(g, x, w):
    return g * w, (g * x).sum(0)


def findings(rule, given, make=make, reference=None):
    return judge(Job(BY_ID[rule], lambda: of_callable(given, make, reference=reference))).findings


def in_corpus(name, rule):
    return judge(Job(BY_ID[rule], lambda: faulty.subject(name))).findings


DTYPES = {
    "float32 for half types": lambda g, x, w: (
        g.float() * w.float() if g.element_size() < 4 else g * w,
        (g * x).sum(0),
    ),
    "float64 always": lambda g, x, w: (g.double() * w.double(), (g * x).sum(0)),
    "a float64 mask": lambda g, x, w: (g * w * torch.ones(3, dtype=torch.float64), (g * x).sum(0)),
    "float32 for float64": lambda g, x, w: ((g * w).float(), (g * x).sum(0)),
}


@pytest.mark.parametrize("backward", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("reference", [lambda x, factor, w: x * w * factor, None], ids=["reference", "alone"])
def test_a_gradient_of_another_dtype_is_found(backward, reference):
    (found,) = findings("gradient-dtype", scale(backward), reference=reference)
    assert (found.severity, found.where) == ("warning", "gradient of input 0")
    assert findings("gradient-shape", scale(backward)) == ()


def test_the_position_counts_arguments_that_are_no_tensors():
    (found,) = findings("gradient-dtype", scale(lambda g, x, w: (g * w, (g * x).double().sum(0))))
    assert found.where == "gradient of input 2"


def test_a_complex_gradient_of_a_real_input_is_an_error():
    (found,) = findings("gradient-dtype", scale(lambda g, x, w: (torch.complex(g * w, g), (g * x).sum(0))))
    assert found.severity == "error"
    assert "refuses" in found.message


SHAPES = {
    "not summed": (lambda g, x, w: (g * w, g * x), "warning"),
    "a dimension of 1 too many": (lambda g, x, w: (g * w, (g * x).sum(0, keepdim=True)), "warning"),
    "a column": (lambda g, x, w: (g * w, (g * x).sum(0)[:, None]), "error"),
    "a number": (lambda g, x, w: (g * w, (g * x).sum()), "error"),
    "transposed": (lambda g, x, w: ((g * w).t(), (g * x).sum(0)), "error"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_gradient_of_another_shape_is_found(name):
    backward, severity = SHAPES[name]
    (found,) = findings("gradient-shape", scale(backward))
    assert found.severity == severity
    assert found.where == ("gradient of input 0" if name == "transposed" else "gradient of input 2")


@pytest.mark.parametrize("rule", BY_ID)
def test_right_gradients_pass(rule):
    assert findings(rule, scale(right)) == ()
    assert findings(rule, scale(lambda g, x, w: (g * w, None))) == ()


@pytest.mark.parametrize("rule", BY_ID)
def test_the_backward_of_the_class_is_its_own_again_afterwards(rule):
    given = scale(right)
    before = vars(given)["backward"]
    findings(rule, given)
    assert vars(given)["backward"] is before


def test_a_function_inside_a_module_and_one_with_vjp_are_seen():
    class ByVjp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def vjp(ctx, g):
            return (g * ctx.saved_tensors[0].cos()).double()

    class Module(torch.nn.Module):
        def forward(self, x):
            return ByVjp.apply(x * 2).mean(0)

    (found,) = findings("gradient-dtype", Module(), lambda dtype=torch.float32: make(dtype)[:1])
    assert found.where == "gradient of input 0"
    assert "vjp" in vars(ByVjp)
    assert "backward" not in vars(ByVjp)


def test_an_inherited_backward_is_left_inherited():
    class Child(scale(SHAPES["not summed"][0])):
        pass

    assert len(findings("gradient-shape", Child)) == 1
    assert "backward" not in vars(Child)


def test_pytorchs_own_operations_are_not_judged():
    outcome = judge(Job(BY_ID["gradient-shape"], lambda: of_callable(lambda x, factor, w: x * w * factor, make)))
    assert outcome.status == "n/a"


@pytest.mark.parametrize("rule", BY_ID)
@pytest.mark.parametrize("name", registry.names())
def test_the_operators_in_cpp_return_what_fits(rule, name):
    reason = registry.unavailable(name, "cpp")
    if reason:
        pytest.skip(reason)
    apply = registry.load(name, "cpp")

    def subject():
        spec = registry.spec(name)
        return of_variant(spec, "cpp", "cpp", apply, dtype=torch.float64, workload="tiny", device="cpu")

    assert judge(Job(BY_ID[rule], subject)).status == "ok"


def test_the_corpus_faults_are_found():
    (shape,) = in_corpus("07_grad_shape_hidden_sum", "gradient-shape")
    (dtype,) = in_corpus("18_gradient_wrong_dtype", "gradient-dtype")
    assert (shape.severity, shape.observed, shape.expected) == ("warning", "[4, 3]", "[3]")
    assert (dtype.severity, dtype.observed, dtype.expected) == ("warning", "float32", "bfloat16")


@pytest.mark.parametrize("name", [name for name in faulty.NAMES if name.startswith("ok_")])
def test_the_correct_twins_pass(name):
    assert [found for rule in BY_ID for found in in_corpus(name, rule)] == []
