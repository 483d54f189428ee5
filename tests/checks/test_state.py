"""Calls do not meet: neither one after the other, nor at the same time."""

import threading

import pytest
import torch
from faulty import findings as of_fault
from planted.written import findings, function, messages, normal, outcome

RULES = ("state-between-calls", "thread-safety")


def one(dtype=torch.float64):
    return (normal(5, dtype=dtype),)


def scaled(dtype=torch.float64):
    return normal(5, dtype=dtype), 2.0


def square(forward, backward):
    def both(ctx, x):
        forward(ctx, x)
        return x.square()

    return function(both, backward)


@pytest.mark.parametrize("rule_id", RULES)
@pytest.mark.parametrize(
    "given",
    [
        square(lambda ctx, x: ctx.save_for_backward(x), lambda ctx, g: 2 * g * ctx.saved_tensors[0]),
        torch.exp,
        torch.nn.Linear(5, 3, dtype=torch.float64),
    ],
)
def test_what_belongs_to_a_call_on_its_ctx_passes(rule_id, given):
    assert not findings(rule_id, given, one)


def test_a_tensor_on_the_class_is_the_last_calls():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            Square.x = x
            return x.square()

        @staticmethod
        def backward(ctx, g):
            return 2 * g * Square.x

    (found,) = findings("state-between-calls", Square, one)
    assert (found.severity, found.where) == ("error", "gradient of input 0")


def test_a_number_on_the_class_is_the_last_calls():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            Scale.k = k
            return k * x

        @staticmethod
        def backward(ctx, g):
            return Scale.k * g, None

    assert "other numbers" in messages("state-between-calls", Scale, scaled)[0]


def test_a_shape_in_a_global_is_the_last_calls():
    last = {}

    def forward(ctx, x):
        last["n"] = len(x)
        return x.sum()

    planted = function(forward, lambda ctx, g: g.expand(last["n"]))
    assert findings("state-between-calls", planted, one)


def test_a_stack_is_right_only_in_the_other_order():
    stack = []
    planted = square(lambda ctx, x: stack.append(x), lambda ctx, g: 2 * g * stack.pop())
    assert findings("state-between-calls", planted, one)


def test_a_queue_is_right_only_in_the_same_order():
    queue = []
    planted = square(lambda ctx, x: queue.append(x), lambda ctx, g: 2 * g * queue.pop(0))
    assert "in the other order" in messages("state-between-calls", planted, one)[0]


def test_a_workspace_that_the_next_forward_overwrites_is_found():
    buffer = torch.zeros(5, dtype=torch.float64)

    def forward(ctx, x):
        buffer.copy_(x)
        ctx.save_for_backward(buffer)
        return x.square()

    planted = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    assert "raises RuntimeError" in messages("state-between-calls", planted, one)[0]


def test_a_double_buffer_lasts_for_two_calls_only():
    ring, calls = [None, None], []

    def forward(ctx, x):
        ctx.place = len(calls) % 2
        calls.append(0)
        ring[ctx.place] = x.detach().clone()

    planted = square(forward, lambda ctx, g: 2 * g * ring[ctx.place])
    assert "5 further forwards" in messages("state-between-calls", planted, one)[0]


def test_a_forward_without_gradients_must_not_clear_what_another_needs():
    kept = {}

    def forward(ctx, x):
        ctx.save_for_backward(x)
        kept["on"] = ctx.needs_input_grad[0]

    planted = square(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0] if kept["on"] else None)
    assert "further forwards" in messages("state-between-calls", planted, one)[0]


def test_a_module_that_remembers_its_last_input_is_found():
    class Square(torch.nn.Module):
        def forward(self, x):
            self.x = x.detach()
            outer = self

            class Node(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x.square()

                @staticmethod
                def backward(ctx, g):
                    return 2 * g * outer.x

            return Node.apply(x)

    assert findings("state-between-calls", Square(), one)


def test_a_scratch_between_two_lines_of_the_backward_is_found():
    scratch = {}

    def backward(ctx, g):
        scratch["slope"] = 2 * ctx.saved_tensors[0]
        return g * scratch["slope"]

    planted = square(lambda ctx, x: ctx.save_for_backward(x), backward)
    assert not findings("state-between-calls", planted, one)
    (found,) = findings("thread-safety", planted, one)
    assert found.message.startswith("backward in two threads at once")


def test_a_scratch_of_the_forward_alone_is_found():
    scratch = torch.zeros(5, dtype=torch.float64)

    def forward(ctx, x):
        ctx.save_for_backward(x)
        torch.mul(x.detach(), x.detach(), out=scratch)
        return scratch.clone()

    planted = function(forward, lambda ctx, g: 2 * g * ctx.saved_tensors[0])
    assert "forward and backward in two threads" in messages("thread-safety", planted, one)[0]


def test_a_flag_that_one_thread_sees_set_by_the_other_is_found():
    busy = []

    def backward(ctx, g):
        if busy:
            raise RuntimeError("already running")
        busy.append(0)
        grad = 2 * g * ctx.saved_tensors[0]
        busy.pop()
        return grad

    planted = square(lambda ctx, x: ctx.save_for_backward(x), backward)
    assert "raises RuntimeError: already running" in messages("thread-safety", planted, one)[0]


def test_a_scratch_behind_a_lock_passes():
    scratch, lock = {}, threading.Lock()

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with lock:
            scratch["slope"] = 2 * x
            return g * scratch["slope"]

    assert not findings("thread-safety", square(lambda ctx, x: ctx.save_for_backward(x), backward), one)


def test_what_a_thread_keeps_for_itself_is_missed_by_a_backward_elsewhere():
    local = threading.local()
    planted = square(lambda ctx, x: setattr(local, "x", x.detach()), lambda ctx, g: 2 * g * local.x)
    assert "raises AttributeError" in messages("thread-safety", planted, one)[0]


def test_dropout_passes():
    def forward(ctx, x):
        mask = (torch.rand_like(x) > 0.5).to(x.dtype)
        ctx.save_for_backward(mask)
        return x * mask

    planted = function(forward, lambda ctx, g: g * ctx.saved_tensors[0])
    assert not any(findings(rule_id, planted, one, random=True) for rule_id in RULES)


def test_a_backward_that_draws_is_for_the_rule_on_randomness():
    planted = function(lambda ctx, x: x * 1, lambda ctx, g: g * torch.rand_like(g))
    assert {outcome(rule_id, planted, one).status for rule_id in RULES} == {"n/a"}


def test_the_fault_of_the_field_is_found():
    assert any(found.severity == "error" for found in of_fault("29_shared_scratch_threads", {"thread-safety"}))
