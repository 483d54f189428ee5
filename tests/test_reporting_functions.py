"""What the report says of one Function beside its times: formula, capabilities, error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sample_results as sample

from autofn import registry, results
from autofn.checks.pages import page
from autofn.records import Record
from autofn.regressions import Step
from autofn.reporting import formula
from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Cell, Mark, Page, Plot, Point, Section, Series, Table, Text
from autofn.reporting.page import Link, render
from autofn.reporting.sections import capabilities, history, samples, sizes, tradeoff, variants

record = sample.record


def rows_of(section: Section) -> list[dict[str, Cell]]:
    (table,) = section.blocks
    assert isinstance(table, Table)
    return [dict(zip([column.title for column in table.columns], row.cells, strict=True)) for row in table.rows]


# Formulas


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("y = a - (b - c)", "<mi>a</mi><mo>−</mo><mrow><mo>(</mo><mi>b</mi><mo>−</mo><mi>c</mi><mo>)</mo></mrow>"),  # noqa: RUF001
        ("y = (a - b) - c", "<mi>a</mi><mo>−</mo><mi>b</mi><mo>−</mo><mi>c</mi>"),  # noqa: RUF001
        ("y = (a + b) * c", "<mrow><mo>(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mo>)</mo></mrow><mo>⋅</mo><mi>c</mi>"),
        ("y = x / sqrt(z)", "<mfrac><mrow><mi>x</mi></mrow><mrow><msqrt><mi>z</mi></msqrt></mrow></mfrac>"),
        ("y = x**2", "<msup><mrow><mi>x</mi></mrow><mrow><mn>2</mn></mrow></msup>"),
        ("grad_x = abs(x)", "<msub><mi>grad</mi><mtext>x</mtext></msub><mo>=</mo>"),
        ("y = h[t - 1]", "<msub><mrow><mi>h</mi></mrow><mrow><mi>t</mi><mo>−</mo><mn>1</mn></mrow></msub>"),  # noqa: RUF001
        (
            "y = g where 0 < x <= 1, else 0",
            "<mtext>where </mtext><mn>0</mn><mo>&lt;</mo><mi>x</mi><mo>≤</mo><mn>1</mn>",
        ),
    ],
)
def test_a_formula_in_python_is_drawn_as_mathematics(text: str, drawn: str) -> None:
    assert drawn in formula.mathml(text)
    assert formula.mathml(text).startswith('<math display="block">')


@pytest.mark.parametrize("text", ["the sum of <b>rows</b>", "y = [n for n in x]", "y = x if", "y = f(x, key=<i>)"])
def test_what_is_no_formula_stays_escaped_code(text: str) -> None:
    drawn = formula.mathml(text)
    assert drawn.startswith("<code>")
    assert "<b>" not in drawn
    assert "<i>" not in drawn


def test_forward_and_gradients_are_found_in_a_docstring() -> None:
    text = "Half, `y = x / 2`.\n\nThe vjp is\n    grad_x = grad_output / 2\n    grad_w = the sum\nSaved: no = 0."
    assert formula.of_docstring(text) == ["y = x / 2", "grad_x = grad_output / 2"]


def test_most_shipped_functions_have_a_formula_that_is_drawn() -> None:
    drawn = [name for name in registry.names() if formula.of_docstring(registry.documentation(name))]
    assert len(drawn) > 0.9 * len(registry.names())


# Capabilities


def checked(metric: str, **more: Any) -> Record:
    return record(**{"variant": "cpp", "phase": "check", "source": "check", "metric": metric, "value": None} | more)


def test_a_capability_is_the_worst_of_its_rules_over_dtypes() -> None:
    info = {"findings": [{"message": "no vmap rule", "severity": "info", "rule": "vmap"}]}
    (row,) = rows_of(
        capabilities.section(
            Inputs(
                results.frame(
                    [
                        checked("double-backward"),
                        checked("vmap"),
                        checked("vmap", dtype="float64", reason="no vmap rule", detail=info),
                        checked("jvp", status="n/a", reason="there is no forward mode"),
                        checked("opcheck"),
                        checked("opcheck-dispatch", status="failed", reason="fake kernel is wrong"),
                    ]
                )
            )
        )
    )
    assert (row["Second derivative"].value, row["Second derivative"].tone) == ("yes", "good")
    assert (row["vmap"].status, row["vmap"].reason) == ("no", "no vmap rule")
    assert (row["Forward mode"].status, row["Forward mode"].reason) == ("n/a", "there is no forward mode")
    assert (row["opcheck"].status, row["opcheck"].reason, row["opcheck"].tone) == (
        "wrong",
        "fake kernel is wrong",
        "bad",
    )
    assert row["autocast"].reason == "not checked"


def test_every_rule_behind_a_capability_exists() -> None:
    for rule in {rule for rules in capabilities.CAPABILITIES.values() for rule in rules}:
        assert rule in page(rule)


# Plots


def test_a_variant_that_saves_no_less_and_is_surely_slower_is_dominated() -> None:
    def case(variant: str, value: float, saved: float) -> list[Record]:
        bounds = {"value": value, "low": value * 0.9, "high": value * 1.1}
        step = record(variant=variant, phase="forward_backward", **bounds)
        return [step, record(variant=variant, metric="saved_bytes", unit="bytes", value=saved, low=None, high=None)]

    rows = [*case("eager", 3e-3, 800.0), *case("python", 3.1e-3, 800.0), *case("fused", 1e-3, 900.0)]
    rows += [*case("cpp", 1e-3, 0.0), record(variant="compile", phase="forward_backward")]
    plot, table = tradeoff.section(Inputs(results.frame(rows))).blocks
    assert isinstance(plot, Plot)
    assert isinstance(table, Table)
    told = {str(row.cells[0].value): row.cells[4].value for row in table.rows}
    assert told == {"eager": "cpp", "python": "cpp", "fused": "cpp", "cpp": "none"}
    points = {series.name: series.points[0] for series in plot.series}
    assert (points["cpp"].x, points["cpp"].faint, points["eager"].faint) == (0.0, False, True)
    assert not tradeoff.dominates({"saved": 800, "value": 3, "high": 3.3}, {"saved": 800, "value": 3.1, "low": 2.8})


def test_times_over_sizes_are_marked_where_variants_surely_change_places() -> None:
    rows = [
        record(variant=variant, workload=workload, value=value, low=value * 0.99, high=value * 1.01,
               samples=tuple(value * (1 + 0.001 * place) for place in range(12)))
        for variant, workload, value in (
            ("eager", "tiny", 1e-6), ("eager", "large", 4e-3), ("cpp", "tiny", 2e-6), ("cpp", "large", 1e-3),
        )
    ]  # fmt: skip
    (plot,) = [block for block in sizes.section(Inputs(results.frame(rows))).blocks if isinstance(block, Plot)]
    assert [series.name for series in plot.series] == ["eager", "cpp"]
    assert [point.note for point in plot.series[0].points] == ["tiny", "large"]
    (mark,) = plot.marks
    low, high = (float(point.x) for point in plot.series[0].points)
    assert low < mark.x < high
    assert mark.text == "cpp beats eager"


def test_samples_are_dots_and_of_many_every_so_manieth() -> None:
    step = {"phase": "forward_backward"}
    many = tuple(1e-3 + place * 1e-6 for place in range(1000))
    rows = [record(samples=many, **step), record(variant="cpp", samples=(1e-3,), **step), record(phase="forward")]
    section = samples.section(Inputs(results.frame(rows)))
    (plot,) = [block for block in section.blocks if isinstance(block, Plot)]
    eager, cpp = plot.series
    assert len(eager.points) <= samples.MOST
    assert (eager.points[0].y, [point.y for point in cpp.points]) == (1e-3, [1e-3])
    assert section.folded
    assert samples.section(Inputs(results.frame([record(**step)]))).empty


def test_a_zero_reaches_the_page() -> None:
    point = Point(0.0, 1e-3, note="here")
    plot = Plot(
        "t", "x", "y", "seconds", (), (Series("cpp", "cpp", (point,)),), x_kind="bytes", marks=(Mark(0.0, "m"),)
    )
    link = Link("a.html", "A", "")
    text = render(Page((Section("S", "s", (plot,)),)), link, [link])
    assert '"points":[{"x":0.0,"y":0.001,"note":"here"}]' in text
    assert '"marks":[{"x":0.0,"text":"m"}]' in text


def test_of_more_points_than_a_page_can_hold_the_plots_with_the_largest_steps_are_left() -> None:
    rows = [
        record(function=name, variant=variant, commit=commit * 40, run=commit)
        for name in ("exp", "relu") for variant in ("eager", "cpp") for commit in "ab"
    ]  # fmt: skip
    found = Inputs(results.frame(rows))
    assert history.bounded(found, most=8) == (found, Section("Left out", "left-out"))
    case = {"workload": "small", "dtype": "float32", "device": "cpu", "phase": "forward", "metric": "time_s"}
    told = {"machine": "bench-1", "commit": "b" * 40, "before": "a" * 40, "floor": 0.0, "usual": None}
    step = Step(function="relu", variant="cpp", factor=2.0, low=2.0, high=2.0, **case, **told)
    drawn, section = history.bounded(replace(found, changes=(step,)), most=7)
    assert set(drawn.results["function"]) == {"relu"}
    (text,) = section.blocks
    assert isinstance(text, Text)
    assert text.text.startswith("1 of 2 plots are here")


# Error


def test_the_error_of_a_training_step_is_that_of_its_gradients_and_of_inference_that_of_its_outputs() -> None:
    error = {"metric": "error", "unit": "1", "low": None, "high": None}
    rows = [record(phase=phase) for phase in ("forward", "backward", "forward_backward", "inference")]
    rows += [record(phase="forward", value=1e-7, **error), record(phase="backward", value=3e-7, **error)]
    found = {
        str(row["Phase"].value): row["Error"].value for row in rows_of(variants.section(Inputs(results.frame(rows))))
    }
    assert found == {"forward": 1e-7, "inference": 1e-7, "backward": 3e-7, "forward_backward": 3e-7}


def test_an_error_that_was_not_measured_says_so() -> None:
    (row,) = rows_of(variants.section(Inputs(results.frame([record()]))))
    assert (row["Error"].value, row["Error"].reason) == (None, "not measured")
