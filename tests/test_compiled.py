"""Compiled means one graph, or an error; the counters say what was compiled."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from autofn import compiled

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def nothing_compiled():
    compiled.forget()
    yield
    compiled.forget()


def since(before):
    return compiled.counts() - before


def test_nothing_is_compiled_before_the_first_call():
    code = (
        "import sys, autofn.compiled as c; f = c.graph(abs);"
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules, c.counts()); c.forget();"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "False False Counts(graphs=0, kernels=0, recompilations=0)\nFalse\n"


def test_a_graph_is_called_like_its_function_and_compiled_once():
    @compiled.graph
    def twice(x):
        """Twice x."""
        return torch.sin(x) * 2

    before = compiled.counts()
    x = torch.ones(5)
    for _ in range(3):
        torch.testing.assert_close(twice(x), torch.sin(x) * 2)
    assert since(before) == compiled.Counts(graphs=1, kernels=1, recompilations=0)
    assert (twice.__name__, twice.__doc__) == ("twice", "Twice x.")


def test_a_graph_break_is_an_error():
    @compiled.graph
    def breaks(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        breaks(torch.ones(3))


def test_past_the_recompile_limit_a_call_raises_and_never_runs_eagerly():
    @compiled.graph
    def twice(x):
        return x + x

    # A rank is always specialised on, while sizes and numbers may become dynamic.
    with torch._dynamo.config.patch(recompile_limit=2):
        twice(torch.ones(1))
        twice(torch.ones(1, 1))
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            twice(torch.ones(1, 1, 1))


def test_another_dtype_counts_as_a_recompilation():
    @compiled.graph
    def twice(x):
        return x + x

    twice(torch.ones(3))
    before = compiled.counts()
    twice(torch.ones(3, dtype=torch.float64))
    found = since(before)
    assert (found.graphs, found.recompilations) == (1, 1)


def test_after_forget_it_is_compiled_anew_and_not_recompiled():
    @compiled.graph
    def twice(x):
        return x + x

    twice(torch.ones(3))
    compiled.forget()
    before = compiled.counts()
    twice(torch.ones(4))
    found = since(before)
    assert (found.graphs, found.recompilations) == (1, 0)


def test_within_replayable_a_compiled_backward_may_run_twice():
    @compiled.graph
    def wave(x):
        return torch.sin(x).exp()

    x = torch.ones(5, requires_grad=True)
    with compiled.replayable():
        y = wave(x)
        first = torch.autograd.grad(y, x, torch.ones(5), retain_graph=True)
        second = torch.autograd.grad(y, x, torch.ones(5), retain_graph=True)
    assert torch.equal(first[0], second[0])


def test_within_replayable_no_graph_comes_from_the_cache_of_those_that_give_their_buffers_away():
    @compiled.graph
    def total(x, weight):
        return (x @ weight).exp().sum()

    def recorded():
        leaves = torch.full((4, 4), 0.5, requires_grad=True), torch.ones(4, 4, requires_grad=True)
        return total(*leaves), leaves

    torch.autograd.grad(*recorded())
    with compiled.replayable():
        loss, leaves = recorded()
        first = [grad.clone() for grad in torch.autograd.grad(loss, leaves, retain_graph=True)]
        second = torch.autograd.grad(loss, leaves, retain_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_replayable_puts_the_setting_back_after_an_error():
    import torch._functorch.config as config

    before = config.donated_buffer
    seen = []
    with pytest.raises(ZeroDivisionError), compiled.replayable():
        seen.append(config.donated_buffer or 1 / 0)
    assert seen == []
    assert config.donated_buffer == before


def test_sums_over_rows_are_as_exact_compiled_as_in_eager():
    rows = torch.rand(4096, 24, generator=torch.Generator().manual_seed(0))
    exact = rows.double().sum(0)

    def error(found):
        return float((found.double() - exact).norm() / exact.norm())

    assert error(compiled.graph(compiled.column_sums)(rows)) <= error(compiled.column_sums(rows))
    one_after_the_other = torch.zeros(24)
    for row in rows:
        one_after_the_other += row
    assert error(one_after_the_other) > 4 * error(compiled.column_sums(rows)), "else this test could not tell"


@pytest.fixture
def looking(monkeypatch):
    """`looking(failures)`: Inductor's trials fail so often, then one succeeds; what counts them."""
    from torch._inductor import cpu_vec_isa

    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    looks = []

    def plan(failures):
        def trial(self, code):
            looks.append(str(self))
            return len(looks) > failures

        monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", trial)
        monkeypatch.setattr(cpu_vec_isa, "x86_isa_checker", lambda: ["avx2"])
        _look_anew(cpu_vec_isa)
        return looks

    yield plan
    _look_anew(cpu_vec_isa)


def _look_anew(cpu_vec_isa):
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    cpu_vec_isa.VecISA._VecISA__bool__impl.cache_clear()


@pytest.mark.parametrize(("failures", "trials"), [(0, 1), (2, 3)])
def test_vectors_are_looked_for_again_where_a_trial_failed(failures, trials, looking):
    looks = looking(failures)
    compiled.find_vectors()
    assert looks == ["avx2"] * trials


def test_an_interpreter_that_finds_no_vectors_does_not_compile_without_a_word(looking):
    looking(9)
    with pytest.raises(RuntimeError, match="found no vector instructions, 3 times, though PyTorch uses AVX2"):
        compiled.find_vectors()


def test_a_processor_without_vectors_is_no_fault(looking, monkeypatch):
    looking(9)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    compiled.find_vectors()
