"""Verdicts and changes of the report: as sections, as Markdown, and as JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample
from typer.testing import CliRunner

from autofn import results
from autofn.cli import app
from autofn.records import Record
from autofn.regressions import Step
from autofn.reporting import read
from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Table, Text
from autofn.reporting.sections import changes, verdicts
from autofn.reporting.text import as_json, as_markdown
from autofn.reporting.verdicts import verdicts as verdicts_of

record = sample.record


def timed(variant: str, value: float, **more: Any) -> Record:
    samples = tuple(value * (1 + 0.001 * math.sin(place)) for place in range(12))
    made = {"variant": variant, "phase": "forward_backward", "value": value, "samples": samples}
    return record(**made | {"low": value * 0.99, "high": value * 1.01} | more)


@pytest.fixture
def root(tmp_path: Path) -> tuple[Path, list[str]]:
    """Six commits: at the third cpp takes twice as long, at the fifth a third less; its bytes grow at the last one."""
    hashes = sample.commit_history(tmp_path, ["one", "two", f"slow {sample.HOSTILE} | x", "four", "fast", "six"])
    for number, (commit, time) in enumerate(zip(hashes, (1.0, 1.0, 2.0, 2.0, 1.3, 1.3), strict=True)):
        run = {"commit": commit, "run": f"r{number}", "date": f"2026-11-{number + 1:02}T12:00:00+00:00"}
        saved = {"metric": "saved_bytes", "unit": "bytes", "low": None, "high": None, **run}
        rows = [timed("eager", 4e-3, **run), timed("cpp", time * 1e-3, **run)]
        rows += [record(variant="cpp", value=800.0 if number == 5 else 400.0, **saved), record(value=1200.0, **saved)]
        sample.write_run(tmp_path, f"run-{number}", rows)
    return tmp_path, hashes


def told(inputs: Inputs) -> list[tuple[str, str, float]]:
    return [(step.metric, step.commit, round(step.factor, 2)) for step in inputs.changes]


def test_steps_are_found_over_all_commits_since_a_base_and_between_two(root: tuple[Path, list[str]]) -> None:
    path, hashes = root
    slower, grown, faster = ("time_s", hashes[2], 2.0), ("saved_bytes", hashes[5], 2.0), ("time_s", hashes[4], 0.65)
    assert sorted(told(read(path))) == sorted([slower, grown, faster])
    assert told(read(path, base=hashes[3][:10])) == [grown, faster]
    assert told(read(path, base=hashes[0], head=hashes[4])) == [("time_s", hashes[4], 1.3)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"base": "nothing"}, LookupError, "there is no revision 'nothing' here"),
        ({"head": "HEAD"}, ValueError, "a head is compared with a base, got no base"),
    ],
)
def test_a_revision_that_cannot_be_compared_is_named(
    root: tuple[Path, list[str]], given: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(root[0], **given)


def test_a_commit_without_results_is_told_which_have_some(tmp_path: Path) -> None:
    hashes = sample.commit_history(tmp_path, ["one", "two"])
    sample.write_run(tmp_path, "run", [record(commit=hashes[0])])
    with pytest.raises(
        LookupError, match=rf"HEAD \({hashes[1][:8]}\) has no results here; there are .* {hashes[0][:8]}"
    ):
        read(tmp_path, base="HEAD")


def test_the_table_of_changes_is_worst_first_with_floor_and_subject(root: tuple[Path, list[str]]) -> None:
    (table,) = changes.section(read(root[0])).blocks
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns]
    rows = [dict(zip(titles, row.cells, strict=True)) for row in table.rows]
    assert [row["Change"].tone for row in rows] == ["bad", "bad", "good"]
    by_metric = {(row["Metric"].value, row["Change"].tone): row for row in rows}
    time = by_metric["time_s", "bad"]
    assert (time["Commit"].value, time["Before"].value) == (root[1][2][:8], root[1][1][:8])
    assert time["Subject"].value == f"slow {sample.HOSTILE} | x"
    assert time["Noise floor"].value == 0.0
    assert by_metric["saved_bytes", "bad"]["Noise floor"].value == "exact"


def test_without_a_step_a_sentence_says_so_and_one_commit_is_no_history() -> None:
    found = results.frame([record()])
    step = Inputs(found)
    assert changes.section(step).empty
    two = read_of([record(commit="a" * 40), record(commit="b" * 40, run="r2")])
    (text,) = changes.section(two).blocks
    assert text == Text("No step in 2 commits.")


def read_of(records: list[Record], steps: tuple[Step, ...] = ()) -> Inputs:
    from autofn.reporting.history import measured

    frame = results.frame(records)
    return Inputs(frame, measured(frame, Path("/")), changes=steps)


def test_the_best_variant_has_all_workloads_and_passed_its_checks() -> None:
    rows = [timed(variant, 1e-3 / speed) for variant, speed in {"eager": 1, "cpp": 3, "fused": 4, "python": 9}.items()]
    rows += [
        timed(variant, 1e-3 / speed, workload="tiny") for variant, speed in {"eager": 1, "cpp": 3, "fused": 4}.items()
    ]
    check = {"phase": "check", "source": "check", "metric": "gradient"}
    rows.append(record(variant="fused", status="failed", reason="wrong", **check))
    (found,) = verdicts_of(read_of(rows))
    assert (found.best, found.clear, found.change) == ("cpp", True, None)
    assert found.speedup == pytest.approx(3)


def test_saved_bytes_are_those_of_the_workloads_that_both_have() -> None:
    def saved(variant: str, workload: str, value: float) -> Record:
        return record(variant=variant, workload=workload, metric="saved_bytes", unit="bytes", value=value)

    rows = [timed("eager", 4e-3), timed("cpp", 1e-3), saved("cpp", "small", 8.0), saved("cpp", "large", 800.0)]
    (lacking,) = verdicts_of(read_of(rows))
    assert (lacking.saved_bytes, lacking.baseline_saved_bytes) == (None, None)
    (found,) = verdicts_of(read_of([*rows, saved("eager", "small", 16.0)]))
    assert (found.saved_bytes, found.baseline_saved_bytes) == (8.0, 16.0)


def test_the_verdict_tells_the_largest_loss_of_its_variant(root: tuple[Path, list[str]]) -> None:
    inputs = read(root[0])
    (found,) = verdicts_of(inputs)
    assert (found.best, round(found.change or 0, 2)) == ("cpp", 2.0)
    (table,) = verdicts.section(inputs).blocks
    assert isinstance(table, Table)
    place = [column.title for column in table.columns].index("Change")
    assert (table.rows[0].cells[place].tone, table.rows[0].cells[place].link) == ("bad", "#changes")
    (after,) = verdicts_of(read(root[0], base=root[1][3]))
    assert round(after.change or 0, 2) == 0.65


def test_markdown_is_tables_in_which_nothing_from_outside_is_markup(root: tuple[Path, list[str]]) -> None:
    text = as_markdown(read(root[0], base=root[1][0]))
    assert "<script>" not in text
    lines = text.splitlines()
    assert f"Steps since {root[1][0][:8]}" not in lines
    (slow,) = [line for line in lines if "&lt;script&gt;" in line]
    assert slow.count("|") - slow.count("\\|") == lines[lines.index(slow) - 1].count("|") - lines[
        lines.index(slow) - 1
    ].count("\\|")
    assert any(line.startswith("| clipped\\_relu | cpp | 3.08") for line in lines)


def test_json_has_the_keys_that_the_documentation_tells_of(root: tuple[Path, list[str]]) -> None:
    found = json.loads(as_json(read(root[0])))
    document = (Path(__file__).parents[1] / "docs" / "reports.md").read_text()
    part = document[document.index("## For a pull request") : document.index("## A page of your own")]
    for names in (found, found["verdicts"][0], found["changes"][0]):
        assert [name for name in names if f"`{name}`" not in part] == []
    assert found["schema"] == 1
    assert found["verdicts"][0]["checks"] == "not checked"
    assert [change["worse"] for change in found["changes"]] == [True, True, False]


def test_the_command_prints_the_format_asked_for(root: tuple[Path, list[str]]) -> None:
    words = ["report", "--root", str(root[0]), "--base", root[1][3]]
    printed = CliRunner().invoke(app, [*words, "--format", "json"])
    assert [change["metric"] for change in json.loads(printed.stdout)["changes"]] == ["saved_bytes", "time_s"]
    assert CliRunner().invoke(app, [*words, "--format", "markdown"]).stdout.startswith("### autofn report")
    refused = CliRunner().invoke(app, [*words, "--format", "pdf"])
    assert "must be one of html, markdown, json, got 'pdf'" in str(refused.exception)
