"""What is kept for the backward goes through save_for_backward."""

import functools
from types import SimpleNamespace

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

RULES = ("ctx-tensor", "hidden-state", "saved-view", "version-check", "unpacked-twice", "saved-hooks")
TABLE = torch.arange(1.0, 6.0, dtype=torch.float64)


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def two(dtype=torch.float64):
    return normal(5, dtype=dtype), torch.linspace(1, 2, 5, dtype=dtype)


def keeping(keep, take):
    """exp, whose result is kept by `keep(ctx, x, y)` and found again by `take(ctx)`."""

    def forward(ctx, x):
        y = x.exp()
        keep(ctx, x, y)
        return y

    return function(forward, lambda ctx, g: g * take(ctx))


def saved(ctx, x, y):
    ctx.save_for_backward(y)


def from_saved(ctx):
    return ctx.saved_tensors[0]


def attribute(name):
    return lambda ctx: getattr(ctx, name)


@pytest.mark.parametrize(
    ("keep", "take", "path"),
    [
        (lambda ctx, x, y: setattr(ctx, "y", y.clone()), attribute("y"), "ctx.y"),
        (lambda ctx, x, y: setattr(ctx, "kept", [y.clone()]), lambda ctx: ctx.kept[0], "ctx.kept[0]"),
        (lambda ctx, x, y: setattr(ctx, "kept", {"y": y.clone()}), lambda ctx: ctx.kept["y"], "ctx.kept.y"),
        (
            lambda ctx, x, y: setattr(ctx, "kept", SimpleNamespace(deep=(y.clone(),))),
            lambda ctx: ctx.kept.deep[0],
            "ctx.kept.deep[0]",
        ),
        (
            lambda ctx, x, y: setattr(ctx, "pull", (lambda z: lambda: z)(y.clone())),
            lambda ctx: ctx.pull(),
            "ctx.pull (z in the closure)",
        ),
        (
            lambda ctx, x, y: setattr(ctx, "pull", functools.partial(torch.mul, y.clone())),
            lambda ctx: ctx.pull(1),
            "ctx.pull.args[0]",
        ),
    ],
)
def test_a_tensor_is_found_wherever_ctx_keeps_it(keep, take, path):
    (found,) = findings("ctx-tensor", keeping(keep, take), one)
    assert (found.severity, found.where) == ("error", path)


def test_an_input_on_ctx_is_named():
    planted = function(lambda ctx, x: setattr(ctx, "x", x) or x.square(), lambda ctx, g: 2 * g * ctx.x)
    (found,) = findings("ctx-tensor", planted, one)
    assert "input 0 is kept as ctx.x" in found.message
    assert "save_for_backward" in found.fix


def test_numpys_view_of_an_input_is_an_input():
    planted = function(
        lambda ctx, x: setattr(ctx, "x", x.detach().numpy()) or x.square(),
        lambda ctx, g: 2 * g * torch.from_numpy(ctx.x),
    )
    (found,) = findings("ctx-tensor", planted, one)
    assert (found.severity, found.where) == ("error", "ctx.x")


def test_a_number_kept_as_a_tensor_is_a_warning():
    planted = function(lambda ctx, x: setattr(ctx, "k", torch.tensor(2.0)) or 2 * x, lambda ctx, g: g * ctx.k)
    assert [each.severity for each in findings("ctx-tensor", planted, one)] == ["warning"]


def test_plain_data_and_a_generators_state_may_lie_on_ctx():
    def forward(ctx, x):
        ctx.shape, ctx.dtype, ctx.names, ctx.state = x.shape, x.dtype, ["a"], torch.get_rng_state()
        return 2 * x

    assert not findings("ctx-tensor", function(forward, lambda ctx, g: 2 * g), one)


def test_a_callable_argument_is_the_callers_own():
    def forward(ctx, run, x):
        ctx.run = run
        ctx.save_for_backward(x)
        return run(x)

    def backward(ctx, g):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return None, torch.autograd.grad(ctx.run(x), x, g)[0]

    weight = torch.ones(5, dtype=torch.float64)
    assert not findings("ctx-tensor", function(forward, backward), lambda: (lambda x: x * weight, *one()))


class Rerun(torch.autograd.Function):
    """A module run again within the backward, under the random numbers of its forward."""

    @staticmethod
    def forward(ctx, module, x, *parameters):
        ctx.module, ctx.state = module, torch.get_rng_state()
        ctx.save_for_backward(x, *parameters)
        return torch.nn.functional.dropout(module(x))

    @staticmethod
    def backward(ctx, g):
        x = ctx.saved_tensors[0]
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            leaf = x.detach().requires_grad_()
            out = torch.nn.functional.dropout(ctx.module(leaf))
        return None, *torch.autograd.grad(out, (leaf, *ctx.module.parameters()), g)


def module_and_parameters():
    module = torch.nn.Linear(5, 2, dtype=torch.float64)
    return module, *one(), *module.parameters()


@pytest.mark.parametrize("rule_id", RULES)
def test_a_module_run_again_within_the_backward_passes(rule_id):
    assert not findings(rule_id, Rerun, module_and_parameters, random=True)


@pytest.mark.parametrize("rule_id", [each for each in RULES if each not in ("saved-hooks", "version-check")])
def test_what_makes_no_function_is_not_looked_into(rule_id):
    assert outcome(
        rule_id, lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False), one
    ).status in (
        "n/a",
        "ok",
    )


@pytest.mark.parametrize("rule_id", RULES[1:])
def test_a_transform_that_refuses_hooks_is_no_finding(rule_id):
    assert not outcome(rule_id, lambda x: torch.func.vjp(torch.sin, x)[0], one).findings


@pytest.mark.parametrize("rule_id", RULES)
def test_what_is_saved_properly_passes(rule_id):
    assert not findings(rule_id, keeping(saved, from_saved), one)


def test_an_operator_without_python_has_no_ctx_to_look_at():
    assert outcome("ctx-tensor", torch.exp, one).status == "n/a"


def test_bytes_hidden_elsewhere_are_counted():
    stash = {}
    planted = keeping(lambda ctx, x, y: stash.__setitem__(id(ctx), y.clone()), lambda ctx: stash.pop(id(ctx)))
    (found,) = findings("hidden-state", planted, one)
    assert (found.severity, found.observed) == ("error", "40 bytes")


def both_halves(save):
    def forward(ctx, x):
        pair = torch.stack([x.sin(), x.cos(), x.exp()])
        save(ctx, pair)
        return pair[0].clone()

    return function(forward, lambda ctx, g: g * ctx.saved_tensors[-1].reshape(-1)[-len(g) :])


def test_a_small_view_of_a_large_buffer_keeps_it_alive():
    (found,) = findings("saved-view", both_halves(lambda ctx, pair: ctx.save_for_backward(pair[1])), one)
    assert (found.severity, found.observed, found.expected) == ("warning", "120 bytes", "40 bytes")


@pytest.mark.parametrize(
    "save",
    [
        lambda ctx, pair: ctx.save_for_backward(pair[1].clone()),
        lambda ctx, pair: ctx.save_for_backward(pair[0], pair[1]),
    ],
)
def test_a_copy_or_most_of_a_buffer_may_be_saved(save):
    assert not findings("saved-view", both_halves(save), one)


def test_a_constant_made_once_is_not_hidden_state():
    table = functools.cache(lambda n: torch.arange(1.0, n + 1, dtype=torch.float64))
    planted = function(lambda ctx, x: x * table(len(x)), lambda ctx, g: g * table(len(g)))
    assert not findings("hidden-state", planted, one)


@pytest.mark.parametrize(
    "keep",
    [
        lambda ctx, x, y: setattr(ctx, "y", y.detach()),
        lambda ctx, x, y: setattr(ctx, "y", y.data),
    ],
)
def test_a_change_of_the_output_goes_unseen(keep):
    (found,) = findings("version-check", keeping(keep, attribute("y")), one)
    assert found.message.startswith("output 0 was changed in place")


def test_data_hides_a_change_even_from_save_for_backward():
    planted = function(
        lambda ctx, x: ctx.save_for_backward(x.data) or x.square(), lambda ctx, g: 2 * g * ctx.saved_tensors[0]
    )
    (found,) = findings("version-check", planted, one)
    assert found.message.startswith("input 0 was changed in place")


def test_a_change_of_an_integer_input_goes_unseen():
    def forward(ctx, x, index):
        ctx.index, ctx.n = index, len(x)
        return x[index]

    planted = function(forward, lambda ctx, g: (torch.zeros(ctx.n, dtype=g.dtype).index_add(0, ctx.index, g), None))
    (found,) = findings("version-check", planted, lambda: (*one(), torch.tensor([0, 3, 1])))
    assert found.message.startswith("input 1 was changed in place")


def test_a_refused_change_passes_and_a_copy_need_not_be_refused():
    def copied(ctx, x, y):
        ctx.save_for_backward(y.clone())

    assert not findings("version-check", keeping(copied, from_saved), one)


def test_what_the_reference_does_not_see_either_is_meant():
    def formula(x):
        return x * torch.from_numpy(x.detach().numpy())

    assert not findings("version-check", formula, one, formula)
    assert findings("version-check", formula, one)


def test_reading_saved_tensors_twice_unpacks_twice():
    planted = function(
        lambda ctx, a, b: ctx.save_for_backward(a, b) or a * b,
        lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]),
    )
    (found,) = findings("unpacked-twice", planted, lambda: (normal(5), normal(5)))
    assert (found.severity, found.observed, found.expected) == ("warning", "2 times", "once")
    assert "2 saved tensors" in found.message


def test_a_weight_streamed_into_another_buffer_is_stale():
    planted = function(lambda ctx, x, w: setattr(ctx, "w", w) or x * w, lambda ctx, g: (g * ctx.w, None))
    (found,) = findings("saved-hooks", planted, two)
    assert "input 1 was overwritten after hooks had packed" in found.message


def test_a_stash_that_is_not_on_ctx_is_stale_too():
    stash = {}
    planted = function(
        lambda ctx, x, w: stash.update(w=w) or x * w,
        lambda ctx, g: (g * stash["w"], None),
    )
    assert "input 1 was overwritten" in messages("saved-hooks", planted, two)[0]


def test_a_raw_address_of_what_was_saved_does_not_survive_packing():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.address = x.data_ptr()
        return x.square()

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if x.data_ptr() != ctx.address:
            raise RuntimeError("the saved tensor has moved")
        return 2 * g * x

    assert (
        "raises RuntimeError where the saved tensors are moved"
        in messages("saved-hooks", function(forward, backward), one)[0]
    )


def test_a_backward_that_assumes_the_strides_of_what_it_saved_is_fragile():
    def forward(ctx, x):
        ctx.save_for_backward(x.exp().t())
        return x.exp()

    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y.as_strided(g.shape, g.stride())

    found = findings("saved-hooks", function(forward, backward), lambda: (normal(3, 4),))
    assert [each.severity for each in found] == ["warning"]
    assert "contiguous" in found[0].message


def test_a_forward_that_saves_something_else_each_time_breaks_checkpointing():
    calls = []

    def forward(ctx, x):
        calls.append(0)
        ctx.save_for_backward(*[x] * (1 + len(calls) % 2))
        return x.square()

    planted = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    assert "checkpoint(use_reentrant=False)" in messages("saved-hooks", planted, one)[0]


def test_an_expanded_tensor_on_ctx_counts_the_memory_that_it_has():
    def keep(ctx, x, y):
        saved(ctx, x, y)
        ctx.mean = y.detach().mean().expand(5)

    (found,) = findings("ctx-tensor", keeping(keep, from_saved), one)
    assert found.severity == "warning"
    assert "(8 bytes)" in found.observed


@pytest.mark.parametrize(
    ("name", "rule_id"),
    [
        ("21_output_on_ctx", "ctx-tensor"),
        ("23_ctx_tensor_outlives_backward", "ctx-tensor"),
        ("26_cache_cleared", "ctx-tensor"),
        ("27_inner_graph_freed", "ctx-tensor"),
        ("30_stale_weight_checkpoint", "ctx-tensor"),
        ("30_stale_weight_checkpoint", "saved-hooks"),
        ("32_version_check_bypassed", "version-check"),
    ],
)
def test_a_fault_of_the_field_is_found(name, rule_id):
    assert any(found.severity == "error" for found in of_fault(name, {rule_id}))
