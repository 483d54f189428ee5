"""A sample calls what it says, as often as it says, on fresh graphs, and clocks what it says."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from support import Clock, case_of, make_spec

from autofn.measure.phases import POOL, SAMPLE
from autofn.measure.protocols import IN_PROCESS, LOCKSTEP
from autofn.terms import PHASES

FORWARD_S, BACKWARD_S = 1.0, 100.0


class Watched:
    """y = x * x whose forward takes 1 s and whose backward 100 s on a clock of its own; it counts its calls and graphs.

    Its backward scales the saved tensor in place: on a graph that is used twice the second gradient would be wrong.
    """

    def __init__(self):
        self.clock = clock = Clock()
        self.forwards, self.backwards, self.gradients, self.collecting = [], 0, [], []
        self.graphs = weakref.WeakSet()
        watched = self

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                clock.advance(FORWARD_S)
                watched.collecting.append(gc.isenabled())
                watched.graphs.add(ctx)
                watched.forwards.append(len(watched.graphs))
                ctx.kept = x.detach().clone()
                return x * x

            @staticmethod
            def backward(ctx, grad_output):
                clock.advance(BACKWARD_S)
                watched.backwards += 1
                grad = ctx.kept.mul_(2).mul_(grad_output)
                watched.gradients.append(grad.clone())
                return grad

        self.case = case_of(Square.apply)

    def sample(self, phase, number):
        return SAMPLE[phase](self.case, number, self.clock)


@pytest.fixture
def watched():
    return Watched()


EXPECTED = {
    # phase: (forwards, backwards, seconds) a call
    "forward": (1, 0, FORWARD_S),
    "backward": (1, 1, BACKWARD_S),
    "forward_backward": (1, 1, FORWARD_S + BACKWARD_S),
    "inference": (1, 0, FORWARD_S),
}

every_phase = pytest.mark.parametrize("phase", PHASES)


def test_every_phase_is_sampled_by_a_protocol_and_expected_here():
    assert set(SAMPLE) == set(IN_PROCESS) == set(LOCKSTEP) == set(EXPECTED) == set(PHASES)


@every_phase
@pytest.mark.parametrize("number", [1, 2, POOL - 1, POOL, POOL + 1, 3 * POOL + 5])
def test_a_sample_makes_exactly_its_calls_and_clocks_exactly_its_part(watched, phase, number):
    forwards, backwards, seconds = EXPECTED[phase]
    assert watched.sample(phase, number) == pytest.approx(seconds * number)
    assert len(watched.forwards) == forwards * number
    assert watched.backwards == backwards * number


@pytest.mark.parametrize("phase", ["backward", "forward_backward"])
def test_each_graph_is_used_once(watched, phase):
    watched.sample(phase, 2 * POOL + 3)
    case = watched.case
    want = 2 * case.inputs[0].detach() * case.grad_outputs[0]
    assert len(watched.gradients) == 2 * POOL + 3
    for grad in watched.gradients:
        torch.testing.assert_close(grad, want)


@every_phase
def test_graphs_are_freed_and_only_a_small_pool_waits(watched, phase):
    gc.disable()
    try:
        watched.sample(phase, 3 * POOL)
        left = len(watched.graphs)
    finally:
        gc.enable()
    assert left == 0
    assert max(watched.forwards) <= (POOL if phase == "backward" else 2)


@every_phase
def test_no_gradient_is_accumulated(watched, phase):
    for _ in range(2):
        watched.sample(phase, 3)
        assert all(leaf.grad is None for leaf in watched.case.leaves)


def test_forward_backward_accumulates_into_leaves_without_a_gradient():
    seen = []

    def note(grad):
        seen.append(case.inputs[0].grad is None)
        return grad

    case = case_of()
    case.inputs[0].register_hook(note)
    SAMPLE["forward_backward"](case, 4, Clock())
    assert seen == [True] * 4


@pytest.mark.parametrize(("phase", "tracked"), [("forward", True), ("inference", False)])
def test_only_the_forward_builds_a_graph(phase, tracked):
    seen = []

    def square(x):
        seen.append(torch.is_grad_enabled())
        return x * x

    case = case_of(square)
    SAMPLE[phase](case, 3, Clock())
    assert seen == [tracked] * 3
    assert torch.is_grad_enabled()


@every_phase
@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_is_not_collected_inside_a_sample_and_as_before_after_it(watched, phase, enabled):
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        watched.sample(phase, 2)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
    assert watched.collecting == [False] * 2


@every_phase
def test_an_exception_leaves_the_collector_and_the_grad_mode_as_they_were(phase):
    def fails(x):
        raise RuntimeError("planted")

    case = case_of(fails)
    with pytest.raises(RuntimeError, match="planted"):
        SAMPLE[phase](case, 1, Clock())
    assert gc.isenabled()
    assert torch.is_grad_enabled()


@every_phase
def test_an_output_that_no_gradient_reaches_and_an_unused_input_are_no_trouble(phase):
    def make(n, *, dtype, device, seed=0):
        return torch.ones(n, dtype=dtype).requires_grad_(), torch.ones(n, dtype=dtype).requires_grad_()

    case = case_of(spec=make_spec(reference=lambda x, unused: (x * 2, x * 3), make_inputs=make))
    assert SAMPLE[phase](case, 2, Clock()) == 0.0
