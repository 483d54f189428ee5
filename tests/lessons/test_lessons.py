"""Every section of docs/lessons prints what it says, and what the lessons claim is so."""

from __future__ import annotations

import math

import documents
import pytest
import torch
from support import ROOT
from torch.autograd.gradcheck import GradcheckError

import autofn
from autofn import extension
from autofn.observe.graph import mermaid

FOLDER = ROOT / "docs" / "lessons"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
SECTIONS = [(page, heading) for page in PAGES for heading in documents.headings(FOLDER / f"{page}.md")]
# Pages that call what was built.
NEEDS_EXTENSION = {"kernels"}


def session(page):
    if page in NEEDS_EXTENSION and (reason := extension.unavailable()):
        pytest.skip(reason)
    return documents.run(FOLDER / f"{page}.md")


def names(page):
    return session(page).names


@pytest.mark.parametrize(("page", "heading"), SECTIONS)
def test_a_section_prints_what_it_says(page, heading):
    assert session(page).wrong(heading) == []


def test_every_page_is_in_the_index():
    index = (FOLDER / "index.md").read_text()
    assert [page for page in PAGES if f"| [{page}]({page}.md) |" not in index] == []


def test_the_right_functions_of_the_lessons_have_the_gradient_of_their_formula():
    x = torch.tensor([-2.0, 0.5, 3.0, 7.0], dtype=torch.float64, requires_grad=True)
    formulas = {
        names("first")["clipped_relu"]: lambda t: t.clamp(0, 6),
        names("saving")["silu"]: torch.nn.functional.silu,
        names("sinh")["sinh"]: torch.sinh,
        names("sinh")["Cube"].apply: lambda t: t**3,
        names("own-gradients")["Softplus"].apply: torch.nn.functional.softplus,
    }
    for function, formula in formulas.items():
        torch.testing.assert_close(function(x), formula(x))
        (grad,), (true,) = (torch.autograd.grad(each(x).sum(), x) for each in (function, formula))
        torch.testing.assert_close(grad, true)


def test_gradcheck_names_the_bias_where_its_gradient_is_zeros():
    page = names("linear")
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch .* with respect to input 2"):
        torch.autograd.gradcheck(page["ZeroBias"].apply, page["make_inputs"]())


def test_the_first_version_is_faulted_for_its_float32_gradient_and_the_finished_one_is_not():
    page = names("first")
    rules = ["gradient", "gradient-dtype", "special-values"]
    first, finished = (
        autofn.check(page[name], page["make_inputs"], select=rules, isolate=False).findings
        for name in ("FirstVersion", "ClippedRelu")
    )
    assert "gradient-dtype" in {finding.rule for finding in first}
    assert finished == []


def test_gradcheck_misses_a_write_into_grad_output_and_autofn_does_not():
    page = names("grad-output")
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(page["InPlace"].apply, x)
    found = autofn.check(page["InPlace"], page["make_inputs"], select=["mutated-grad-output"], isolate=False)
    assert [finding.rule for finding in found.errors] == ["mutated-grad-output"]


def test_an_output_on_ctx_escapes_the_version_check_and_a_saved_one_does_not():
    page = names("saving")

    def changed(function):
        x = torch.ones(2, requires_grad=True)
        y = function.apply(x)
        with torch.no_grad():
            y.zero_()
        return torch.autograd.grad(y.sum(), x)[0].tolist()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        changed(page["Saved"])
    assert changed(page["OnCtx"]) == [0, 0], "wrong, and silently so: the gradient is e"


def test_a_saved_intermediate_loses_a_term_of_the_second_derivative():
    page = names("sinh")

    assert page["twice"](page["SinhBad"].apply) == f"{math.sinh(2):.3f} {2 * math.cosh(1) ** 2:.3f}"
    assert page["twice"](page["sinh"]) == f"{math.sinh(2):.3f} {2 * math.cosh(2):.3f}"


def test_the_drawing_of_the_wrong_graph_does_not_reach_x_and_that_of_the_right_one_does():
    page = names("sinh")

    def drawn(sinh):
        grad_x, leaves = page["first_gradient"](sinh)
        return mermaid(grad_x, **leaves)

    assert '("x")' not in drawn(page["SinhBad"].apply)
    assert '("x")' in drawn(page["sinh"])


@pytest.mark.parametrize("save", ["base", "exponent", "both"])
def test_the_pow_of_the_lessons_saves_nothing_that_no_gradient_needs(save):
    page = names("lifetimes")
    base, exponent = (torch.tensor([2.0, 3.0], dtype=torch.float64) for _ in range(2))
    base.requires_grad_(save != "exponent")
    exponent.requires_grad_(save != "base")

    kept = [tensor is not None for tensor in page["Pow"].apply(base, exponent).grad_fn.saved_tensors]

    assert kept == {"base": [True, True, False], "exponent": [True, False, True], "both": [True] * 3}[save]


def test_what_is_saved_is_all_that_is_held_until_the_backward_and_nothing_after_it():
    page = names("lifetimes")
    for name in page["measured"]:
        saved = sum(page["saved_of"](page["tiny"](name), owner) for owner in ("input", "output", "new"))
        assert page["lifetime"](page["tiny"](name)) == (saved, 0, 0), name


def test_each_measured_lifetime_has_its_reason():
    text = (FOLDER / "lifetimes.md").read_text()
    reasons = text[text.index("| Function | saves | why |") :]
    assert [name for name in names("lifetimes")["measured"] if f"`{name}`" not in reasons] == []
