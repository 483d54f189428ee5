"""A Function without a Spec is benched and traced as one that has one; from Python, it shows itself in a notebook."""

from __future__ import annotations

import re
import sys
import types

import pytest
import torch
from support import ROOT, python
from test_origins import OWN

import autofn
from autofn import given
from autofn.reporting import notebook

OPS = (
    OWN[: OWN.index("SIZES")]
    .replace("def make_inputs(n, *,", "def make_inputs(*, n=50,")
    .replace("from autofn import Spec, Tolerance\n", "")
)
YOURS = ("my_ops.py:Triple", "--inputs", "my_ops.py:make_inputs", "--reference", "my_ops.py:triple")


@pytest.fixture
def project(tmp_path):
    (tmp_path / "my_ops.py").write_text(OPS)
    return tmp_path


def run(project, *words, status=0):
    done = python("-m", "autofn", *words, cwd=project, package=ROOT)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_bench_takes_one_without_a_spec(project, tmp_path_factory):
    out = run(project, "bench", *YOURS, "-v", "python", "--quick", "--budget", "0.01", "--phase", "forward")
    assert "triple given float32" in out
    assert re.search(r"│ python +│ [\d.]+ .s .*x", out)
    # Every process of a run finds it, from any folder.
    (file,) = (project / ".autofn" / "given").glob("*.py")
    code = "from autofn import registry; print(registry.names(), registry.load('triple', 'python'))"
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = python("-c", code, cwd=elsewhere, package=ROOT, AUTOFN_SPECS=str(file))
    assert done.stdout.startswith("('triple',) <"), done.stderr


def test_trace_takes_one_without_a_spec(project):
    run(project, "trace", *YOURS, "-v", "python", "--steps", "1")
    assert list((project / "traces" / "triple" / "python").glob("*.pt.trace.json.gz"))


@pytest.mark.parametrize(
    ("names", "inputs", "reference", "words"),
    [
        (["a.py:F"], None, None, "a.py:F: --inputs pkg.module:make_inputs must say what makes its arguments"),
        (["a.py:F"], "a.py:i", None, "a.py:F: --reference pkg.module:NAME must say what it is measured against"),
        (["a.py:F", "exp"], "a.py:i", "a.py:r", "a.py:F is yours: give it in a command of its own"),
        (["exp"], "a.py:i", None, "--inputs and --reference go with one of yours"),
        (None, None, "a.py:r", "--inputs and --reference go with one of yours"),
    ],
)
def test_what_does_not_go_together_is_refused(names, inputs, reference, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        given.functions(names, inputs, reference)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("FastSwish", "fast_swish"),
        ("ops.Swish2d", "swish2d"),
        ("exp", "exp_given"),
        ("_2", "function_2"),
        ("Check", "check_given"),
    ],
)
def test_it_is_called_as_it_is_and_never_as_another(source, name):
    assert given.name_of(source) == name


# From Python


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.clone())
        return 3 * x

    @staticmethod
    def backward(ctx, grad_output):
        return 3 * grad_output


def triple(x):
    return 3 * x


def one():
    return torch.randn(50, requires_grad=True)


def benched(**options):
    options = {"variants": ["python"], "phases": ["forward"], "budget_s": 0.01, **options}
    return autofn.bench(Triple, one, reference=triple, **options)


def test_a_function_of_this_process_is_benched_in_it():
    found = benched()
    times = found.times.set_index("variant")
    assert set(times.index) == {"eager", "python"}
    assert (times["value"] > 0).all()
    assert times.loc["eager", "speedup"] == 1
    saved = found.frame.query("metric == 'saved_new_bytes' and variant == 'python'")["value"]
    assert saved.tolist() == [200]
    assert "triple given float32 cpu" in str(found)
    assert "200 B" in str(found)


def test_it_shows_itself_as_a_table_and_a_plot_without_a_network():
    page = benched()._repr_html_()
    assert "<table>" in page
    assert "<svg " in page
    assert page.count("<rect ") == 1, "a bar for each variant and phase but eager's"
    assert "200 B" in page
    assert "no verdicts" in page
    assert not re.search(r"(src|href)=|<script|@import", page)


def test_what_a_function_says_is_no_markup():
    def evil(x):
        raise RuntimeError("<script>alert(1)</script>")

    page = autofn.bench(
        evil, one, reference=triple, variants=["python"], phases=["forward"], budget_s=0.01
    )._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("make_inputs and reference must be given with a Function of your own", {"what": Triple}),
        ("make_inputs and reference go with a Function of your own", {"what": ["exp"], "make_inputs": one}),
    ],
)
def test_from_python_too(words, options):
    with pytest.raises(ValueError, match=words):
        autofn.bench(**options)


class Shown(list):
    """IPython's display module, noting what is shown."""

    class HTML(str):
        pass

    def display(self, bar, display_id):
        self.append(bar)
        return self

    def update(self, bar):
        self.append(bar)


def test_in_a_notebook_a_bar_shows_how_far_it_is_and_goes_in_the_end(monkeypatch):
    shown = Shown()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    show = notebook.progress("bench")
    show(0, 2, "a < b")
    show(1, 2, "b")
    show(2, 2, "")
    assert shown == [
        '<progress value="0" max="2"></progress> bench 0/2 a &lt; b',
        '<progress value="1" max="2"></progress> bench 1/2 b',
        "",
    ]


def test_elsewhere_nothing_is_shown(capsys):
    notebook.progress("bench")(0, 2, "a")
    assert capsys.readouterr() == ("", "")
