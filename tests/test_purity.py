"""One graph is replayed only where a backward was shown to leave all as it found it."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from support import Clock, case_of, make_spec

from autofn import registry
from autofn.case import Key, prepare
from autofn.measure.phases import replayed_backward
from autofn.measure.purity import why_impure


def planted(backward, keep=lambda ctx, x: ctx.save_for_backward(x.clone())):
    """A case of y = 3 * x whose backward is given."""

    class Planted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            keep(ctx, x)
            return x * 3

    Planted.backward = staticmethod(backward)
    return case_of(Planted.apply)


def scaled_through_data(ctx, grad_output):
    """The saved tensor as the gradient, scaled in place, unseen by its version counter: 6, 18, 54 for a saved 2."""
    (x,) = ctx.saved_tensors
    x.data.mul_(3)
    return x.clone()


def scaled(ctx, grad_output):
    (x,) = ctx.saved_tensors
    return x.mul_(3).clone()


def scaled_on_ctx(ctx, grad_output):
    return ctx.kept.mul_(3).clone()


def keep_on_ctx(ctx, x):
    ctx.kept = x.clone()


def test_a_saved_tensor_scaled_in_place_gives_6_18_54_and_is_refused():
    def make(n, *, dtype, device, seed=0):
        return (torch.full((n,), 2.0, dtype=dtype).requires_grad_(),)

    apply = planted(scaled_through_data).apply
    case = case_of(apply, make_spec(make_inputs=make))
    outputs = case.forward()
    replays = [torch.autograd.grad(outputs, case.leaves, case.grad_outputs, retain_graph=True)[0] for _ in range(3)]
    assert [grad[0].item() for grad in replays] == [6.0, 18.0, 54.0]
    assert why_impure(case) == "the second backward of one graph gives another gradient 0"
    with pytest.raises(ValueError, match=r"square-python-tiny-float32-cpu: one graph cannot be replayed: the second"):
        replayed_backward(case, 3, Clock(), compiled=False)


def idle(ctx, grad_output):
    """Writes what is there already."""
    (x,) = ctx.saved_tensors
    x.data.copy_(x.data.clone())
    x.add_(0)
    return grad_output * 3


def doubled_after_use(ctx, grad_output):
    """The gradient does not depend on what it breaks."""
    (x,) = ctx.saved_tensors
    x.data.mul_(2)
    return grad_output * 3


def in_grad_output(ctx, grad_output):
    return grad_output.mul_(1.0).mul(3)


def grad_output_itself(ctx, grad_output):
    return grad_output.data.abs_().neg_()


def into_the_input(ctx, grad_output):
    ctx.input.data.add_(1)
    return grad_output * 3


def keep_the_input(ctx, x):
    ctx.input = x


def at_random(ctx, grad_output):
    return torch.rand_like(grad_output)


def negative_zero():
    signs = iter([1.0, -1.0, 1.0] * 9)
    return lambda ctx, grad_output: torch.zeros_like(grad_output) * next(signs)


IMPURE = {
    "scaled, seen by the version counter": (planted(scaled), "the second backward of one graph raises RuntimeError"),
    "kept on ctx": (planted(scaled_on_ctx, keep_on_ctx), "the second backward of one graph gives another gradient 0"),
    "broken after use": (planted(doubled_after_use), "the backward changed saved tensor 0"),
    "written with the same values": (planted(idle), "the second backward of one graph raises RuntimeError"),
    "grad_output written with the same values": (planted(in_grad_output), "the backward wrote into grad_output 0"),
    "grad_output changed": (planted(grad_output_itself), "the backward changed grad_output 0"),
    "an input changed": (planted(into_the_input, keep_the_input), "the backward changed input 0"),
    "random": (planted(at_random), "the second backward of one graph gives another gradient 0"),
    "the sign of zero": (planted(negative_zero()), "the second backward of one graph gives another gradient 0"),
}


@pytest.mark.parametrize("name", IMPURE)
def test_a_backward_is_refused_for(name):
    case, reason = IMPURE[name]
    found = why_impure(case)
    assert found is not None
    assert found.startswith(reason)


def test_only_the_third_replay_tells():
    grads = iter([1.0, 1.0, 2.0])
    case = planted(lambda ctx, grad_output: torch.full_like(grad_output, next(grads)))
    assert why_impure(case) == "the third backward of one graph gives another gradient 0"


PURE = {
    "nothing saved": planted(lambda ctx, grad_output: grad_output * 3, lambda ctx, x: None),
    "NaN": planted(lambda ctx, grad_output: grad_output * float("nan")),
    "eager": case_of(),
    "no gradient": planted(lambda ctx, grad_output: None),
    "grad_output handed on": planted(lambda ctx, grad_output: grad_output),
}


@pytest.mark.parametrize("name", PURE)
def test_a_backward_is_pure_with(name):
    assert why_impure(PURE[name]) is None


SHIPPED = [
    pytest.param(function, variant.name, id=f"{function}-{variant.name}")
    for function in registry.names()
    for variant in registry.variants(function)
    if variant.kind in ("eager", "native", "python", "cpp")
]


@pytest.mark.parametrize(("function", "variant"), SHIPPED)
def test_what_ships_is_pure_and_replayed(function, variant):
    if reason := registry.unavailable(function, variant):
        pytest.skip(reason)
    spec = registry.spec(function)
    case = prepare(spec, Key(function, variant, "small", "float32", "cpu"), registry.load(function, variant))
    assert why_impure(case) is None


# The sample


class Counted:
    """A case whose forward takes 1 s and whose backward 100 s; it counts both."""

    def __init__(self):
        self.clock = Clock()
        self.forwards = self.backwards = 0

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                self.forwards += 1
                self.clock.advance(1)
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad_output):
                self.backwards += 1
                self.clock.advance(100)
                assert not gc.isenabled() or self.backwards <= 5
                return 2 * ctx.saved_tensors[0] * grad_output

        self.case = case_of(Square.apply)


def test_a_sample_replays_one_graph_and_clocks_the_backwards_alone():
    counted = Counted()
    assert replayed_backward(counted.case, 7, counted.clock, compiled=False) == 700
    shown = (2, 5)  # graphs and backwards that showed it pure
    assert (counted.forwards, counted.backwards) == (shown[0] + 1, shown[1] + 7)
    assert replayed_backward(counted.case, 2, counted.clock, compiled=False) == 200
    assert (counted.forwards, counted.backwards) == (shown[0] + 2, shown[1] + 9), "a case is shown pure once"
    assert all(leaf.grad is None for leaf in counted.case.leaves)


def test_another_case_is_shown_pure_anew():
    assert replayed_backward(Counted().case, 1, Clock(), compiled=False) == 0
    with pytest.raises(ValueError, match="cannot be replayed"):
        replayed_backward(planted(scaled), 1, Clock(), compiled=False)
    with pytest.raises(ValueError, match="cannot be replayed"):
        replayed_backward(planted(scaled), 1, Clock(), compiled=False)


def test_a_compiled_variant_is_never_replayed():
    with pytest.raises(ValueError, match="a compiled variant's graph is not replayed"):
        replayed_backward(case_of(), 1, Clock(), compiled=True)


def test_what_was_shown_keeps_no_case_alive():
    case = case_of()
    replayed_backward(case, 1, Clock(), compiled=False)
    seen = weakref.ref(case)
    del case
    gc.collect()
    assert seen() is None
