"""Every rule catches the faults that are planted for it, and lets through what is right."""

from __future__ import annotations

import pytest
import torch
from support import WORKLOADS, make_spec, plant, square, square_inputs, unplant, write_function
from torch.autograd.function import once_differentiable

from autofn import Tolerance, checks, registry
from autofn.checks import plan, runner
from autofn.checks.plan import WORKLOADS as CHECKED
from autofn.checks.rule import INFO
from autofn.checks.runner import Job, judge
from autofn.checks.subject import of_variant
from autofn.records import FAILED, OK, UNAVAILABLE
from autofn.refusal import refuse_double_backward

RULES = {rule.id: rule for rule in checks.rules()}


def run(rule, apply, spec=None, dtype=torch.float64, variant="python"):
    """The outcome of a rule for `apply`, by the very way that `autofn check` takes."""
    spec = spec or make_spec()
    subject = of_variant(spec, variant, "python", apply, dtype=dtype, workload="tiny", device="cpu")
    return judge(Job(RULES[rule], lambda: subject))


def function(forward, backward, save=lambda x, y: (x,)):
    """An autograd.Function of one input: forward(x), backward(grad_output, *saved)."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = forward(x)
            ctx.save_for_backward(*save(x, y))
            return y

        @staticmethod
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Planted


def right(g, x):
    return 2 * x * g


RIGHT = function(square, right).apply


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("apply", [square, RIGHT], ids=["eager", "python"])
def test_a_right_function_passes_every_rule(rule, apply):
    outcome = run(rule, apply)
    # What the rule is not about is n/a; what it could not do is told as an info.
    assert outcome.status in (OK, UNAVAILABLE), outcome.reason
    assert [str(found) for found in outcome.findings if found.severity != INFO] == []


def test_the_rules_have_names_of_their_own_and_a_meaning():
    assert len(RULES) == len(checks.rules()) > 0
    for rule in RULES.values():
        assert rule.meaning
        assert rule.severity in ("error", "warning", "info")


# value


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda x: x * x + 1e-9, "output 0: differs from the reference"),
        (lambda x: (x * x).float(), "output 0: must be of torch.float64"),
        (lambda x: (x * x)[None], "another shape than the reference's (observed [1, 6], expected [6])"),
        (lambda x: (x * x)[:1], "another shape than the reference's"),
        (lambda x: (x * x, x), "another number of outputs (observed 2, expected 1)"),
        (lambda x: x * x * float("nan"), "output 0: differs from the reference"),
        (
            lambda x: x * x + torch.where(torch.arange(6) == 5, float("inf"), 0.0),
            "output 0: differs from the reference",
        ),
    ],
)
def test_a_wrong_output_is_found(fault, words):
    outcome = run("value", fault)
    assert outcome.status == FAILED
    assert words in outcome.reason


def test_an_error_within_the_tolerance_passes_and_is_told():
    spec = make_spec(tolerances={torch.float64: Tolerance(0, 1e-3, "planted")})
    outcome = run("value", lambda x: x * x + 5e-4, spec)
    assert outcome.status == OK
    assert outcome.error == pytest.approx(5e-4)
    assert run("value", lambda x: x * x + 2e-3, spec).status == FAILED


def test_a_reference_that_is_nan_wants_nan():
    spec = make_spec(reference=lambda x: x.log())
    assert run("value", lambda x: x.log(), spec).status == OK
    assert run("value", lambda x: x.abs().log(), spec).status == FAILED


# gradient

WRONG_GRADIENTS = {
    "twice as large": (lambda g, x: 4 * x * g, "gradient of input 0: differs"),
    "a little off": (lambda g, x: 2 * x * g * (1 + 1e-9), "gradient of input 0: differs"),
    "wrong in one place": (
        lambda g, x: 2 * x * g + torch.where(torch.arange(6) == 3, 0.1, 0.0),
        "gradient of input 0: differs",
    ),
    "ignores grad_output": (lambda g, x: 2 * x, "gradient of input 0: differs"),
    "none": (lambda g, x: None, "gradient of input 0: is None"),
    "zero": (lambda g, x: torch.zeros_like(x), "gradient of input 0: differs"),
    "in half precision": (lambda g, x: (2 * x * g).half(), "gradient of input 0: differs"),
    "of another shape": (lambda g, x: (2 * x * g)[:3], "shape"),
    "nan": (lambda g, x: g * float("nan"), "gradient of input 0: is not finite"),
    "raises": (lambda g, x: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("fault", WRONG_GRADIENTS)
def test_a_wrong_gradient_is_found(fault):
    backward, words = WRONG_GRADIENTS[fault]
    outcome = run("gradient", function(square, backward).apply)
    assert outcome.status == FAILED
    assert words in outcome.reason


def test_a_backward_of_another_forward_is_found_by_finite_differences_alone():
    # The reference itself is differentiated wrongly: only the forward can tell.
    planted = function(square, lambda g, x: 3 * x * g).apply
    outcome = run("gradient", planted, make_spec(reference=planted))
    assert outcome.status == FAILED
    assert "Jacobian" in outcome.reason


def test_a_gradient_that_is_not_tracked_at_all_is_found():
    outcome = run("gradient", lambda x: (x * x).detach())
    assert outcome.status == FAILED


def test_the_second_input_is_looked_at_too():
    def make(n, *, dtype, device, seed=0):
        return (*square_inputs(n, dtype=dtype, device=device), *square_inputs(n, dtype=dtype, device=device, seed=1))

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            _, y = ctx.saved_tensors
            return grad_output * y, grad_output * y

    outcome = run("gradient", Product.apply, make_spec(reference=lambda x, y: x * y, make_inputs=make))
    assert outcome.status == FAILED
    assert "gradient of input 1: differs" in outcome.reason


# double-backward


def silent_zero():
    """A first gradient that is right, and a constant to autograd: a gradient penalty counts as zero."""

    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            with torch.no_grad():
                return 2 * ctx.saved_tensors[0] * grad_output

    return Silent.apply


def once():
    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad_output):
            return 2 * ctx.saved_tensors[0] * grad_output

    return Once.apply


def saved_intermediate():
    """Saves x + x, which is neither an input nor an output: autograd takes it for a constant."""
    return function(square, lambda g, doubled: g * doubled, save=lambda x, y: (x + x,)).apply


class Constant(torch.autograd.Function):
    """2 * x * grad_output, right for a grad_output that is tracked, and silently constant for any other."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * (x if grad_output.requires_grad else x.detach()) * grad_output


WRONG_SECOND = {
    "silently zero": silent_zero,
    "a saved intermediate": saved_intermediate,
    "silently zero for a constant grad_output": lambda: Constant.apply,
}


@pytest.mark.parametrize("fault", WRONG_SECOND)
def test_a_wrong_second_derivative_is_found_and_only_by_its_rule(fault):
    apply = WRONG_SECOND[fault]()
    assert run("double-backward", apply).status == FAILED
    for rule in ("value", "gradient"):
        assert run(rule, apply).status == OK


@pytest.mark.parametrize("fault", WRONG_SECOND)
def test_declaring_it_once_differentiable_does_not_excuse_a_silent_one(fault):
    spec = make_spec(once_differentiable=frozenset({"python"}))
    outcome = run("double-backward", WRONG_SECOND[fault](), spec)
    assert outcome.status == FAILED
    assert "silently zero for a constant grad_output" in outcome.reason


@pytest.mark.parametrize("declared", [frozenset(), frozenset({"python"})])
def test_torchs_own_refusal_is_told_as_what_it_is(declared):
    """It refuses for a grad_output that requires grad alone; people use it all the same."""
    outcome = run("double-backward", once(), make_spec(once_differentiable=declared))
    assert outcome.status == OK
    assert [found.severity for found in outcome.findings] == [INFO] * len(outcome.findings) != []


def refusing(backward=right):
    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @refuse_double_backward("square (cpp)")
        def backward(ctx, grad_output):
            return backward(grad_output, *ctx.saved_tensors)

    return Refusing.apply


def test_a_declared_refusal_passes():
    spec = make_spec(once_differentiable=frozenset({"cpp"}))
    assert run("double-backward", refusing(), spec, variant="cpp").status == OK


def test_a_second_derivative_where_a_refusal_was_declared_is_found():
    spec = make_spec(once_differentiable=frozenset({"python"}))
    outcome = run("double-backward", RIGHT, spec)
    assert [found.severity for found in outcome.findings] == ["warning"]
    assert "second derivative" in outcome.reason


def test_a_refusal_of_one_gradient_does_not_cover_the_other():
    def make(n, *, dtype, device, seed=0):
        return (*square_inputs(n, dtype=dtype, device=device), *square_inputs(n, dtype=dtype, device=device, seed=1))

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, grad_output):
            x, y = ctx.saved_tensors
            refused = refuse_double_backward("product (python)")(lambda ctx, g: (g * y,))(ctx, grad_output)
            return refused[0], grad_output * x.detach()

    spec = make_spec(
        reference=lambda x, y: x * y, make_inputs=make, once_differentiable=frozenset({"python"})
    )  # fmt: skip
    assert run("double-backward", Product.apply, spec).status == FAILED


def test_where_the_second_derivative_is_zero_there_is_nothing_to_refuse():
    linear = function(lambda x: 3 * x, lambda g, x: (3 * g).detach() if not g.requires_grad else 3 * g)
    assert run("double-backward", linear.apply, make_spec(reference=lambda x: 3 * x)).status == OK


# What the Spec declares


@pytest.mark.parametrize("rule", RULES)
def test_a_declared_surrogate_passes(rule):
    def straight(x):
        return x * 1.0

    spec = make_spec(reference=lambda x: x + (x.round() - x).detach(), surrogate=straight)
    rounding = function(torch.round, lambda g, x: g.clone()).apply
    outcome = run(rule, rounding, spec)
    assert outcome.status in (OK, UNAVAILABLE), outcome.reason


def test_a_surrogate_is_what_the_gradient_must_equal():
    spec = make_spec(reference=torch.round, surrogate=lambda x: x * 1.0)
    assert run("gradient", function(torch.round, lambda g, x: g.clone()).apply, spec).status == OK
    assert run("gradient", function(torch.round, lambda g, x: g * 2).apply, spec).status == FAILED
    assert run("gradient", function(torch.round, lambda g, x: g * 0).apply, spec).status == FAILED


@pytest.mark.parametrize("rule", RULES)
def test_a_random_function_is_not_blamed_for_being_random(rule):
    spec = make_spec(reference=lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)), random=True)
    outcome = run(rule, spec.reference, spec)
    assert outcome.status in (OK, UNAVAILABLE), outcome.reason


# All together


@pytest.fixture
def planted(tmp_path):
    wrong = "from .reference import square\n\n\ndef apply(x):\n    return square(x) + 1\n"
    missing = 'raise NotImplementedError("ant (cpp): no kernel")\n'
    write_function(tmp_path / "functions", "ant", native=wrong, cpp=missing)
    write_function(tmp_path / "functions", "bee")
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path / "functions")
        yield
    unplant()


def test_check_gives_a_row_for_every_rule_variant_dtype_and_workload(planted):
    found = checks.check(isolate=False).frame
    quick = plan.chosen()
    every = [rule.id for rule in quick if rule.every_case]
    once = [rule.id for rule in quick if not rule.every_case]
    want = {
        (name, variant, workload, dtype, rule)
        for name, variants in {"ant": ("eager", "native", "python", "cpp"), "bee": ("eager", "python")}.items()
        for variant in variants
        for rules, workload, dtype in (
            *((every, workload, dtype) for workload in CHECKED for dtype in ("float32", "float64")),
            (once, "tiny", "float64"),
        )
        for rule in rules
    }
    rows = list(zip(*(found[c] for c in ("function", "variant", "workload", "dtype", "metric")), strict=True))
    assert len(rows) == len(set(rows))
    assert set(rows) == want
    failed = found[found["status"] == FAILED]
    assert set(failed["variant"]) == {"native"}
    assert "value" in set(failed["metric"])
    assert all(failed["reason"])
    missing = found[found["variant"] == "cpp"]
    assert set(missing["status"]) == {UNAVAILABLE}
    assert missing["reason"].str.contains("no kernel").all()
    assert set(found[found["variant"].isin(["eager", "python"])]["status"]) == {OK, UNAVAILABLE}


def test_a_function_without_float64_is_checked_in_the_first_dtype_that_it_declares(tmp_path):
    folder = write_function(tmp_path / "functions", "cat")
    text = (folder / "__init__.py").read_text()
    (folder / "__init__.py").write_text(
        text.replace("torch.float64: Tolerance(1e-12, 1e-12", "torch.bfloat16: Tolerance(1e-2, 1e-2")
    )
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path / "functions")
        found = checks.check(["cat"], variants=["python"], isolate=False).frame
    unplant()
    once = found[found["metric"].isin([rule.id for rule in RULES.values() if not rule.every_case])]
    assert set(once["dtype"]) == {"float32"}
    assert set(once["status"]) == {OK, UNAVAILABLE}
    assert (once["status"] == OK).sum() > 30


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"what": ["ont"]}, "no Function 'ont'; did you mean ant"),
        ({"variants": ["pythn"]}, "no variant 'pythn'; did you mean python"),
        ({"dtypes": ["float23"]}, "no dtype 'float23'; did you mean float32"),
        ({"device": "cpuu"}, "no device 'cpuu'; did you mean cpu"),
    ],
)
def test_an_unknown_name_is_an_error_that_helps(planted, options, words):
    with pytest.raises(LookupError, match=words.replace(".", r"\.")):
        checks.check(**options)


def test_a_spec_may_suppress_a_rule_for_one_variant(planted, monkeypatch):
    suppress = {"value (native)": "only there", "gradient": "everywhere"}
    monkeypatch.setattr(registry, "spec", lambda name: make_spec(name=name, suppress=suppress))
    work = plan.of_registry(["ant"], variants=["native", "python"], rules=plan.chosen(["value", "gradient"]))
    found = {(check.key.variant, check.job.rule.id, check.suppressed) for variant in work for check in variant}
    assert found == {
        ("native", "value", "only there"),
        ("native", "gradient", "everywhere"),
        ("python", "value", ""),
        ("python", "gradient", "everywhere"),
    }


def test_what_tritons_interpreter_cannot_tell_is_no_finding_and_its_rules_have_time(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    untrue = list(plan.UNTRUE_INTERPRETED)
    work = plan.of_registry(["softmax"], variants=["triton", "cpp"], rules=plan.chosen(untrue))
    kernels, compiled = sorted(work, key=lambda checks: checks[0].key.variant, reverse=True)
    for check in kernels:
        assert check.job.limit_s == runner.LIMIT_S["full"]
        with pytest.raises(NotImplementedError, match="Triton's interpreter"):
            check.job.subject()
    for check in compiled:
        assert check.job.limit_s == runner.LIMIT_S["quick"]
        assert not check.job.subject.untrue


def test_only_what_was_asked_for_is_checked(planted):
    found = checks.check(["ant"], variants=["python"], dtypes=["float32"]).frame
    assert set(found["variant"]) == {"python"}
    assert set(found["dtype"]) == {"float32"}
    assert set(found["function"]) == {"ant"}


def test_what_is_done_is_not_checked_again_and_the_rest_is(planted):
    work = plan.of_registry(["ant"], variants=["python", "eager"], rules=plan.chosen(["value", "gradient"]))
    whole = list(checks.records(work))
    done = [whole[0], whole[3], whole[-1]]
    again = list(checks.records(work, done=done))
    assert len(whole) == len(done) + len(again) == 16
    assert not set(map(identity, done)) & set(map(identity, again))


def identity(record):
    return record.variant, record.workload, record.dtype, record.metric


def test_workloads_of_the_checks_are_those_that_every_spec_has():
    assert set(CHECKED) <= set(WORKLOADS)
