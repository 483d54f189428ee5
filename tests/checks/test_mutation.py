"""Who writes to what."""

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

from autofn.checks.subject import of_callable
from autofn.checks.tools.declared import with_declared

RULES = ["mutated-input", "mark-dirty", "mutated-grad-output", "mutated-saved"]


def one(dtype=torch.float64):
    return (normal(2, 3, dtype=dtype),)


def with_buffer(dtype=torch.float64):
    return normal(2, 3, dtype=dtype), torch.zeros(3, dtype=dtype)


def double(ctx, x):
    return 2 * x


def twice(ctx, g):
    return 2 * g


def through_numpy(ctx, x):
    out = x * 2
    x.detach().numpy()[...] = 0
    return out


def through_data(ctx, x):
    out = x * 2
    x.data.zero_()
    return out


def there_and_back(ctx, x):
    x.mul_(2)
    out = x.clone()
    x.div_(2)
    return out


def if_float_does_not_copy(ctx, x):
    return x.float().mul_(2).to(x.dtype, copy=True)


def only_in_inference(ctx, x):
    return x * 2 if ctx.needs_input_grad[0] else x.mul_(2).clone()


@pytest.mark.parametrize(
    "forward", [through_numpy, through_data, there_and_back, if_float_does_not_copy, only_in_inference]
)
def test_a_forward_that_writes_to_its_input_is_found(forward):
    (found,) = findings("mutated-input", function(forward, twice), one)
    assert (found.where, found.severity) == ("input 0", "error")


def test_a_write_behind_the_version_counter_is_told_as_such():
    assert "version counter did not move" in messages("mutated-input", function(through_numpy, twice), one)[0]
    assert "version counter" not in messages("mutated-input", function(there_and_back, twice), one)[0]


def test_a_write_inside_a_list_is_found():
    def forward(ctx, x, others):
        others[0].add_(1)
        return 2 * x

    planted = function(forward, lambda ctx, g: (2 * g, None))
    assert findings("mutated-input", planted, lambda: (normal(3), [torch.zeros(3)]))[0].where == "input 1"


def track(x, running):
    running.add_(x.detach().mean(0))
    return 2 * x


def test_a_buffer_without_gradient_is_a_warning_and_fine_where_the_reference_writes_to_it_too():
    planted = function(lambda ctx, x, running: track(x, running), lambda ctx, g: (2 * g, None))
    assert [each.severity for each in findings("mutated-input", planted, with_buffer)] == ["warning"]
    assert not findings("mutated-input", planted, with_buffer, track)
    assert not findings("mutated-input", planted, with_buffer, mutates=(1,))


def test_what_autograd_follows_is_a_warning():
    assert [each.severity for each in findings("mutated-input", lambda x: x.mul_(2), one)] == ["warning"]


def marked(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def test_a_forward_that_declares_its_write_is_right():
    planted = function(marked, twice)
    for rule in RULES:
        assert not findings(rule, planted, one)
        assert not findings(rule, planted, one, mutates=(0,))


def test_what_the_code_marks_dirty_need_not_be_declared_again():
    assert with_declared(of_callable(function(marked, twice), one)).intent.mutates == (0,)
    assert with_declared(of_callable(function(double, twice), one)).intent.mutates == ()


def test_a_scratch_copy_is_right():
    assert not findings("mutated-input", function(lambda ctx, x: x.clone().mul_(2), twice), one)


def not_returned(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2).clone()


def not_written(ctx, x):
    ctx.mark_dirty(x)
    return x


def not_marked(ctx, x):
    return x.mul_(2)


def not_marked_through_numpy(ctx, x):
    x.detach().numpy()[...] *= 2
    return x


@pytest.mark.parametrize(
    ("forward", "word"),
    [
        (not_returned, "were not returned"),
        (not_written, "does not write"),
        (not_marked, "not marked"),
        (not_marked_through_numpy, "not marked"),
    ],
)
def test_a_false_declaration_is_found(forward, word):
    (told,) = messages("mark-dirty", function(forward, twice), one, mutates=(0,))
    assert word in told


def test_a_write_without_effect_on_these_values_is_no_false_declaration():
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.clamp_(-100, 100)

    assert not findings("mark-dirty", function(forward, lambda ctx, g: g), one, mutates=(0,))


def test_mark_dirty_says_nothing_of_a_composition():
    assert outcome("mark-dirty", lambda x: x * 2, one).status == "n/a"


def into_grad_output(ctx, g):
    return g.mul_(2)


def into_grad_output_through_numpy(ctx, g):
    g.numpy()[...] *= 2
    return g.clone()


def into_contiguous(ctx, g):
    return g.contiguous().mul_(2)


def into_float(ctx, g):
    return g.float().mul_(2).to(g.dtype)


def into_view(ctx, g):
    g.view(-1)[0] = 0
    return g * 2


def there_and_back_in_backward(ctx, g):
    out = g.mul_(2).clone()
    g.div_(2)
    return out


@pytest.mark.parametrize(
    "backward",
    [
        into_grad_output,
        into_grad_output_through_numpy,
        into_contiguous,
        into_float,
        into_view,
        there_and_back_in_backward,
    ],
)
def test_a_backward_that_writes_to_grad_output_is_found(backward):
    (found,) = findings("mutated-grad-output", function(double, backward), one)
    assert found.where == "grad_output 0 of Planted"


def test_a_grad_output_that_is_resized_is_found():
    mean = function(lambda ctx, x: x.mean(), lambda ctx, g: g.resize_(2, 3).fill_(1 / 6))
    (found,) = findings("mutated-grad-output", mean, one)
    assert found.where == "grad_output 0 of Planted"
    assert (found.observed, found.expected) == ("[2, 3]", "[]")


def test_a_write_inside_a_composition_is_found():
    planted = function(double, into_grad_output)
    assert findings("mutated-grad-output", lambda x: planted.apply(x.exp()).sin(), one)


def test_a_write_to_what_goes_to_two_inputs_is_found():
    planted = function(lambda ctx, a, b: a + 2 * b, lambda ctx, g: (g, g.mul_(2)))
    assert findings("mutated-grad-output", planted, lambda: (normal(3), normal(3)))


@pytest.mark.parametrize("backward", [twice, lambda ctx, g: g, lambda ctx, g: g.clone().mul_(2)])
def test_a_backward_that_leaves_grad_output_alone_is_right(backward):
    assert not findings("mutated-grad-output", function(double, backward), one)


def keep(ctx, x):
    out = x.exp()
    ctx.save_for_backward(x, out, out + 0)
    return out


def into_saved_input(ctx, g):
    x, out, _ = ctx.saved_tensors
    x.copy_(g)
    return g * out


def into_saved_output(ctx, g):
    _, out, _ = ctx.saved_tensors
    return out.mul_(g)


def into_saved_intermediate(ctx, g):
    _, _, third = ctx.saved_tensors
    return third.mul_(g)


def into_saved_behind_its_back(ctx, g):
    _, out, third = ctx.saved_tensors
    third.data.zero_()
    return g * out


@pytest.mark.parametrize(
    ("backward", "place"),
    [(into_saved_input, 0), (into_saved_output, 1), (into_saved_intermediate, 2), (into_saved_behind_its_back, 2)],
)
def test_a_backward_that_writes_to_what_was_saved_is_found(backward, place):
    found = findings("mutated-saved", function(keep, backward), one)
    assert f"saved tensor {place} of Planted" in [each.where for each in found]


def test_a_write_to_an_output_that_was_not_saved_is_found():
    def forward(ctx, x):
        ctx.out = x * 2
        return ctx.out

    def backward(ctx, g):
        ctx.out.data.zero_()
        return 2 * g

    assert [each.where for each in findings("mutated-saved", function(forward, backward), one)] == ["output 0"]


def test_a_backward_that_reads_what_was_saved_is_right():
    assert not findings("mutated-saved", function(keep, lambda ctx, g: g * ctx.saved_tensors[1]), one)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("04_inplace_on_grad_output", "mutated-grad-output"),
        ("05_forward_clobbers_input", "mutated-input"),
        ("06_backward_clobbers_saved", "mutated-saved"),
        ("34_missing_mark_dirty", "mutated-input"),
        ("34_missing_mark_dirty", "mark-dirty"),
        ("55_custom_op_undeclared_mutation", "mutated-input"),
    ],
)
def test_the_corpus_faults_are_found(name, rule):
    assert of_fault(name, [rule])


@pytest.mark.parametrize("name", ["ok_04_hands_on_grad_output", "ok_34_mark_dirty", "ok_48_dropout_saved_mask"])
def test_the_right_twins_pass(name):
    assert not of_fault(name, RULES)
