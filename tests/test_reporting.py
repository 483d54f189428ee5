"""The report: what its sections say, compared as plain data, and the page as a browser shows it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample
from typer import Exit

import autofn
from autofn import results as stored
from autofn.cli.report import report_command
from autofn.records import Record, from_line, to_line
from autofn.reporting import NoResultsError, history, inputs, units
from autofn.reporting.inputs import Inputs
from autofn.reporting.model import Cell, Column, Page, Plot, Row, Section, Table, Text
from autofn.reporting.page import Link, as_json, prose, render
from autofn.reporting.sections import (
    checks,
    commits,
    ledger,
    machine,
    matrix,
    places,
    profile,
    skipped,
    times,
    traces,
    variants,
)
from autofn.reporting.sections import history as history_section

record = sample.record


def given(*records: Record, **more: Any) -> Inputs:
    return Inputs(stored.frame(records), **more)


def table_of(section: Section, index: int = 0) -> list[dict[str, Cell]]:
    """The rows of a section's table, by the columns' titles."""
    table = section.blocks[index]
    assert isinstance(table, Table)
    return [dict(zip([column.title for column in table.columns], row.cells, strict=True)) for row in table.rows]


def plots_of(section: Section) -> list[Plot]:
    return [block for block in section.blocks if isinstance(block, Plot)]


def row_of(rows: list[dict[str, Cell]], **wanted: str) -> dict[str, Cell]:
    (found,) = [row for row in rows if all(row[title].value == value for title, value in wanted.items())]
    return found


# ---- Speedups


def test_speedup_is_baseline_time_over_time_and_green_where_the_intervals_lie_apart() -> None:
    rows = table_of(
        variants.section(
            given(
                record(value=3e-3, low=2.9e-3, high=3.1e-3),
                record(variant="cpp", value=1e-3, low=0.9e-3, high=1.1e-3),
                record(variant="python", value=2.95e-3, low=2.8e-3, high=3.0e-3),
                record(variant="fused", value=6e-3, low=5.9e-3, high=6.1e-3),
            )
        )
    )
    told = {row["Variant"].value: (row["Speedup"].value, row["Speedup"].tone) for row in rows}
    assert told["eager"] == (1.0, "")
    assert told["cpp"] == (pytest.approx(3.0), "good")
    assert told["python"] == (pytest.approx(3 / 2.95), "")
    assert told["fused"] == (0.5, "bad")


@pytest.mark.parametrize(
    "different",
    [{"machine": "other"}, {"commit": "d" * 40}, {"run": "r2"}, {"source": "asv"}, {"torch": "2.12"}, {"threads": 2}],
    ids=lambda different: next(iter(different)),
)
def test_results_that_were_not_measured_side_by_side_are_never_divided(different: dict[str, Any]) -> None:
    rows = table_of(variants.section(given(record(), record(variant="cpp", value=0.5e-3, **different))))
    cell = row_of(rows, Variant="cpp")["Speedup"]
    assert (cell.value, cell.status, cell.reason) == (None, "n/a", "no eager in this run")


def test_a_failed_baseline_leaves_speedups_na_and_says_so() -> None:
    failed = record(status="failed", reason="out of memory")
    rows = table_of(variants.section(given(failed, record(variant="cpp"))))
    assert row_of(rows, Variant="cpp")["Speedup"].reason == "eager is failed in this run"
    assert row_of(rows, Variant="eager")["Time"] == Cell(status="failed", reason="out of memory")


def test_both_allocators_are_shown_each_with_its_own_ratio() -> None:
    rows = table_of(
        variants.section(
            given(
                record(value=4e-3),
                record(variant="cpp", value=1e-3),
                record(value=3e-3, allocator="settled", run="r2"),
                record(variant="cpp", value=1e-3, allocator="settled", run="r2"),
            )
        )
    )
    assert row_of(rows, Variant="cpp", Allocator="stock")["Speedup"].value == pytest.approx(4)
    assert row_of(rows, Variant="cpp", Allocator="settled")["Speedup"].value == pytest.approx(3)


def test_the_newest_result_of_a_case_is_shown() -> None:
    old = record(variant="cpp", value=9e-3, date="2026-11-01T00:00:00+00:00", run="r0")
    rows = table_of(variants.section(given(record(), old, record(variant="cpp"))))
    assert row_of(rows, Variant="cpp")["Time"].value == 1e-3


def test_rates_are_shown_beside_what_the_same_run_reached() -> None:
    copy = record(function="ceiling", variant="copy", dtype="uint8", value=1e-3, detail={"bytes": 4 * 524288})
    found = given(record(value=1e-3), record(variant="triton", status="n/a", reason="no GPU"))
    rows = table_of(variants.section(replace(found, ceilings=stored.frame([copy]))))
    row = row_of(rows, Variant="eager")
    # 128 x 512 numbers of 4 bytes are read and written: a quarter of what the copy did.
    assert row["GB/s"].value == pytest.approx(0.524288)
    assert (row["% of ceiling"].value, row["% of ceiling"].note) == (pytest.approx(25), "bound by bytes")
    assert row_of(rows, Variant="triton")["GB/s"].reason == "no time"


def test_without_a_ceiling_or_a_declaration_rates_say_so_or_are_left_out() -> None:
    rows = table_of(variants.section(given(record())))
    assert "GB/s" in rows[0]
    assert "% of ceiling" not in rows[0]
    rows = table_of(variants.section(given(record(function="own_function"))))
    assert "GB/s" not in rows[0]


# ---- What is missing


def test_what_could_not_run_is_a_row_with_its_reason() -> None:
    rows = table_of(
        variants.section(
            given(record(), record(variant="triton", status="n/a", reason="runs on cuda only, not on cpu"))
        )
    )
    row = row_of(rows, Variant="triton")
    assert row["Time"] == Cell(status="n/a", reason="runs on cuda only, not on cpu")
    assert row["Speedup"].value is None
    assert row["Saved"].reason == "not measured"


def test_nothing_is_saved_without_a_graph() -> None:
    saved = record(metric="saved_bytes", unit="bytes", value=640.0, low=None, high=None)
    rows = table_of(variants.section(given(record(), record(phase="inference"), saved)))
    assert row_of(rows, Phase="forward")["Saved"].value == 640
    assert row_of(rows, Phase="inference")["Saved"].reason == "no graph, nothing is saved"


def test_the_matrix_names_every_function_and_gives_the_geometric_mean_over_workloads() -> None:
    found = [record(value=4e-3), record(variant="cpp"), record(workload="tiny"), record(variant="cpp", workload="tiny")]
    rows = table_of(matrix.section(given(*found)))
    assert {row["Function"].value for row in rows} == set(autofn.registry.names())
    cpp = row_of(rows, Function="clipped_relu")["cpp"]
    assert cpp.value == pytest.approx(2)
    assert (cpp.low, cpp.high) == (pytest.approx(1), pytest.approx(4))
    assert cpp.badge is not None
    assert cpp.badge.text == "not checked"
    assert row_of(rows, Function="exp")["eager"] == Cell(status="n/a", reason="not measured")


def test_the_matrix_says_what_the_checks_found_and_links_to_it() -> None:
    failed = record(variant="cpp", phase="check", source="check", metric="gradient", status="failed", value=0.5)
    found = given(record(), record(variant="cpp"), failed, detail="comparison.html")
    badge = row_of(table_of(matrix.section(found)), Function="clipped_relu")["cpp"].badge
    assert badge is not None
    assert (badge.text, badge.tone, badge.link) == ("1 of 1 failed", "bad", "comparison.html#clipped_relu-checks")


# ---- Checks, ledger, machine, skipped files, traces


def test_checks_are_counts_and_findings_and_no_choice_of_dtype_hides_them() -> None:
    section = checks.section(given(*sample.check_records(["clipped_relu"])))
    counts, findings, rules, lacking = section.blocks
    assert [table.folded for table in (counts, findings)] == ["", ""]
    fused = row_of(table_of(section), Variant="fused")
    assert (fused["Passed"].value, fused["Failed"].value, fused["Failed"].tone) == (9, 1, "bad")
    assert row_of(table_of(section), Variant="cpp")["Passed"].value == 10
    (found,) = table_of(section, 1)
    assert (found["Variant"].value, found["Status"].value, found["Worst error"].value) == ("fused", "failed", 0.031)
    assert all("dtype" not in row.tags for row in (*counts.rows, *findings.rows))
    assert rules.folded == "Every rule by variants (5)"
    assert row_of(table_of(section, 2), Rule="gradient")["fused"].value == "1 of 2 failed"
    assert lacking.folded == "What could not be checked, and why"
    (triton,) = table_of(section, 3)
    assert (triton["Variant"].value, triton["Reason"].value) == ("triton", "runs on cuda only, not on cpu")


def test_a_warning_is_a_finding_and_a_suppressed_one_is_not() -> None:
    check = {"phase": "check", "source": "check", "metric": "leak", "reason": "keeps 8 bytes a call"}
    warning = {"findings": [{"message": "keeps 8 bytes a call", "severity": "warning", "rule": "leak"}]}
    (found,) = table_of(checks.section(given(record(**check, detail=warning))), 1)
    assert (found["Status"].value, found["Reason"].value) == ("warning", "keeps 8 bytes a call")
    section = checks.section(given(record(**check, detail={**warning, "suppressed": "known"})))
    assert [table.folded for table in section.blocks] == ["", "Every rule by variants (1)"]


def test_a_check_without_a_unit_comes_back_from_its_file() -> None:
    (first, *_) = sample.check_records(["clipped_relu"])
    assert first.unit == ""
    assert from_line(to_line(first)) == first


def test_the_ledger_lists_saved_tensors_and_marks_those_that_cost_memory() -> None:
    rows = table_of(ledger.section(given(*sample.bench_records(["clipped_relu"]))))
    case = {"Variant": "fused", "Workload": "small", "dtype": "float32"}
    new = row_of(rows, **case, Whose="new")
    assert (new["Saved tensor"].value, new["Bytes"].value, new["Whose"].tone) == ("bool[65536]", 262144, "bad")


def test_places_stand_side_by_side_and_the_newest_of_each_counts() -> None:
    made = given(
        sample.record(value=9.0, date="2026-11-19T10:00:00+00:00"),
        sample.record(value=1.0),
        sample.record(value=0.25, machine="bench-2"),
        sample.record(value=3.0, variant="cpp"),
        sample.record(value=2.0, threads=2),
    )
    (row,) = table_of(places.section(made))
    assert row["bench-1"].value == 1.0
    assert row["bench-2 against bench-1"].value == 4.0
    assert row["bench-2 against bench-1"].badge is None, "two runs give no verdict"


@pytest.mark.parametrize(
    ("different", "title"),
    [
        ({"device": "cuda"}, "cuda"),
        ({"torch": "2.11.0+cpu"}, "torch 2.13.0+cpu"),
        ({"machine": "bench-2", "torch": ""}, "bench-2 torch not recorded"),
    ],
)
def test_a_place_is_named_by_what_tells_it_from_the_others(different: dict[str, Any], title: str) -> None:
    (row,) = table_of(places.section(given(sample.record(), sample.record(**different))))
    assert title in row


def test_one_place_is_compared_with_none() -> None:
    assert places.section(given(sample.record(), sample.record(variant="cpp"))).empty


def test_the_machine_is_described_by_its_conditions() -> None:
    (row,) = table_of(machine.section(given(record(), record(variant="cpp"), machines={"bench-1": {"num_cpu": "16"}})))
    assert row["Model"].value == "EPYC 7B13"
    assert (row["Cores"].value, row["Threads"].value, row["Results"].value) == (16, 1, 2)
    assert row["Driver"].value == "none"
    assert row["First"].value == "2026-11-20 10:00"


def test_a_damaged_file_is_named_once_with_its_first_fault(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "good", [record()])
    (tmp_path / ".autofn/runs/bad.jsonl").write_text("{\n[]\n")
    found = inputs.load(tmp_path)
    (notice,) = skipped.section(found).blocks
    assert isinstance(notice, Text)
    assert notice.text.startswith(f"{tmp_path / '.autofn/runs/bad.jsonl'}: skipped")
    assert notice.text.endswith("(and 1 more lines)")
    assert len(found.results) == 1


def test_traces_are_labelled_as_profiled_and_say_how_to_open_them() -> None:
    summary = {
        "function": "exp", "variant": "fused", "workload": "small", "dtype": "float32", "device": "cpu",
        "date": "2026-11-20T10:00:00+00:00", "folder": "traces/exp/fused", "kernels": {"forward": {"cpp_fused": 1.0}},
    }  # fmt: skip
    section = traces.section(given(record(), traces=(summary,)))
    meaning, command, _ = section.blocks
    assert isinstance(meaning, Text)
    assert "profiled times" in meaning.text
    assert command == Text("autofn trace --view --out traces", preformatted=True)
    assert row_of(table_of(section, 2), Variant="fused")["Kernels in one call"].value == "forward: 1 of 1 kernel"


def test_the_profile_tells_where_the_time_of_each_variant_goes(tmp_path: Path) -> None:
    sample.write_traces(tmp_path, ["exp"])
    found = replace(inputs.load(tmp_path), out=str(tmp_path / "html"))
    text, table = profile.section(found).blocks
    assert isinstance(text, Text)
    assert "not how long a call takes" in text.text
    rows = table_of(profile.section(found), 1)
    order_of_rows = [("eager", "forward"), ("cpp", "forward"), ("eager", "backward"), ("cpp", "backward")]
    assert [(row["Variant"].value, row["Phase"].value) for row in rows] == order_of_rows
    eager, cpp, *_ = rows
    assert eager["Profiled time"].value == pytest.approx(80e-6)
    assert eager["Outside any kernel"].value == pytest.approx(30e-6)
    assert (eager["Outside any kernel"].note, eager["Kernels launched"].value) == ("38% of the profiled time", 2)
    assert eager["Most own time"].value == "aten::mul: 50.0 µs, 62%"
    assert eager["Most own time"].note == "[[128, 512]]\n[[512]]"
    assert eager["Second own time"].value == "none"
    assert (cpp["Kernels launched"].value, cpp["Outside any kernel"].value) == (0, pytest.approx(80e-6))
    assert eager["Slowdown"].value == 1.5
    link = Path(found.out) / eager["Trace"].link
    assert link.name.endswith(".pt.trace.json.gz")
    assert link.resolve().is_file()
    assert isinstance(table, Table)
    assert all("profiled" in title for title in (profile.section(found).title, table.caption))


def test_operators_of_another_version_are_skipped_and_named(tmp_path: Path) -> None:
    sample.write_traces(tmp_path, ["exp"])
    path = tmp_path / "traces" / "exp" / "cpp" / "operators.csv"
    path.write_text(path.read_text().replace("kernel_time_s", "device_time_s"))
    found = inputs.load(tmp_path)
    assert set(found.profile["variant"]) == {"eager"}
    assert any(str(path) in line and "record it again" in line for line in found.skipped)


# ---- Commits and history


def test_commits_are_in_topological_order_and_unknown_ones_go_by_date(tmp_path: Path) -> None:
    hashes = sample.commit_history(tmp_path, ["first", "second", "third"])
    unknown = record(commit="f" * 40, date="2026-11-02T18:00:00+00:00")
    # Their dates as results are the reverse of their history.
    known = [record(commit=name, date=f"2026-12-0{9 - i}T00:00:00+00:00") for i, name in enumerate(hashes)]
    found = history.measured(stored.frame([*known, unknown, record(commit=f"{hashes[0]}+dirty")]), tmp_path)
    assert [commit.subject for commit in found] == ["first", "second", "", "third"]
    assert [commit.known for commit in found] == [True, True, False, True]


def test_without_git_commits_go_by_date(tmp_path: Path) -> None:
    later = record(commit="a" * 40, date="2026-11-05T00:00:00+00:00")
    earlier = record(commit="b" * 40, date="2026-11-04T00:00:00+00:00")
    found = history.measured(stored.frame([later, earlier]), tmp_path)
    assert [commit.hash[0] for commit in found] == ["b", "a"]
    (first, _) = table_of(commits.section(Inputs(stored.frame([later, earlier]), found)))
    assert (first["Commit"].value, first["Subject"].reason) == ("aaaaaaaa", "git does not know this commit here")


def test_history_is_a_line_a_variant_over_ordered_commits_with_failures_as_gaps(tmp_path: Path) -> None:
    hashes = sample.write_everything(tmp_path, ["clipped_relu"])
    found = inputs.load(tmp_path)
    asv = found.only(found.results[found.results["source"] == "asv"])
    plots = plots_of(history_section.section(asv))
    assert len(plots) == len(sample.PHASES) * len(sample.WORKLOADS)
    assert plots[0].title == "forward_backward · tiny · float32 · cpu"
    assert plots[0].positions == tuple(name[:8] for name in hashes)
    assert [series.name for series in plots[0].series] == ["eager", "python", "fused", "cpp"]
    cpp = plots[0].series[-1].points
    assert [point.y is None for point in cpp] == [False, False, True, False, False, False]
    assert cpp[2].note == "2026-11-03 cpp: break it\nfailed: the extension did not build"
    assert cpp[1].note == f"2026-11-02 Handle {sample.HOSTILE} & co"


def test_a_new_protocol_starts_a_new_line() -> None:
    found = [record(protocol="1", commit="a" * 40), record(protocol="2", commit="b" * 40)]
    (plot,) = plots_of(
        history_section.section(Inputs(stored.frame(found), history.measured(stored.frame(found), Path())))
    )
    assert [series.name for series in plot.series] == ["eager (protocol 1)", "eager (protocol 2)"]


def test_results_of_changed_trees_are_counted_and_not_drawn() -> None:
    found = stored.frame([record(), record(commit="c" * 40 + "+dirty", run="r2"), record(commit="", run="r3")])
    note, plot = history_section.section(Inputs(found, history.measured(found, Path()))).blocks
    assert isinstance(note, Text)
    assert note.text.startswith("2 results")
    assert isinstance(plot, Plot)
    assert plot.positions == ("cccccccc",)


def test_times_are_plotted_by_workload_a_phase_with_their_intervals() -> None:
    (plot,) = plots_of(times.section(given(record(workload="large"), record(workload="tiny"), record(variant="cpp"))))
    assert plot.positions == ("tiny", "small", "large")
    eager, cpp = plot.series
    assert [(point.x, point.low, point.high) for point in cpp.points] == [("small", 0.9e-3, 1.1e-3)]
    assert [point.x for point in eager.points] == ["tiny", "large"]


# ---- The page


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1.234e-5, "seconds", "12.3 µs"),
        (0.001, "seconds", "1.00 ms"),
        (2.5e-10, "seconds", "0.250 ns"),
        (140, "bytes", "140 B"),
        (262144, "bytes", "256 KiB"),
        (1536.5, "bytes", "1.50 KiB"),
        (0, "bytes", "0 B"),
        (1.836, "ratio", f"1.84{units.TIMES}"),
        (16, "number", "16"),
        (3.1e-7, "number", "3.1e-07"),
    ],
)
def test_numbers_are_scaled_to_a_unit_that_suits_them(value: float, kind: Any, text: str) -> None:
    assert units.quantity(value, kind) == text


def test_an_interval_is_in_the_unit_of_its_value() -> None:
    assert units.interval(1.05e-3, 0.95e-3, 1.2e-3, "seconds") == "0.950 to 1.20"


def test_all_text_is_escaped_wherever_it_stands() -> None:
    hostile = sample.HOSTILE
    cell = Cell(hostile, note=hostile, link=f"#{hostile}")
    table = Table(
        hostile, (Column(hostile, note=hostile, tags={"variant": hostile}),), (Row((cell,), {"dtype": hostile}),)
    )
    plot = Plot(hostile, "x", "y", "seconds", (hostile,), ())
    missing = Table("m", (Column("c"),), (Row((Cell(status="n/a", reason=hostile),), {"dtype": "float32"}),))
    section = Section(hostile, "a", (table, plot, missing, Text(hostile), Text(hostile, preformatted=True)))
    link = Link("a.html", hostile, hostile)
    text = render(Page((section,)), link, [link])
    assert hostile not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10


def test_data_cannot_end_the_script_that_holds_it() -> None:
    assert as_json({"a": "</script><!-- & "}) == '{"a":"\\u003c/script\\u003e\\u003c!-- \\u0026 "}'
    assert json.loads(as_json({"a": "</script>"})) == {"a": "</script>"}


def test_backticks_mark_code_in_escaped_prose() -> None:
    assert prose("`a<b>` & c") == "<code>a&lt;b&gt;</code> &amp; c"


def test_a_table_with_a_cell_too_few_is_refused() -> None:
    with pytest.raises(ValueError, match="t: a row holds one cell a column, got 1 for 2"):
        Table("t", (Column("a"), Column("b")), (Row((Cell("x"),)),))


# ---- The report


def test_every_definition_becomes_a_page_beside_the_front_page(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "bench", [record(), record(variant="cpp")])
    pages = autofn.report(tmp_path, tmp_path / "html")
    assert [path.name for path in pages] == ["index.html", "commits.html", "comparison.html"]
    assert sorted(path.name for path in (tmp_path / "html").iterdir()) == sorted(path.name for path in pages)
    front = pages[0].read_text()
    assert 'href="comparison.html#clipped_relu"' in front
    assert len(front) < 200_000


def test_a_repository_brings_its_own_definitions(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "bench", [record()])
    own = tmp_path / "reports" / "own.py"
    own.parent.mkdir()
    own.write_text(
        '"""Mine.\n\nFor me."""\n'
        "from autofn.reporting import Page\n"
        "from autofn.reporting.sections import machine\n"
        "def page(inputs):\n"
        "    return Page((machine.section(inputs),))\n"
    )
    pages = autofn.report(tmp_path, tmp_path / "html")
    assert [path.name for path in pages] == ["index.html", "own.html"]
    assert '<h1>Mine</h1>\n<p class="intro">For me.</p>' in pages[1].read_text()


def test_a_definition_without_a_docstring_is_refused_by_name(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "bench", [record()])
    (tmp_path / "bare.py").write_text("def page(inputs): ...\n")
    with pytest.raises(LookupError, match=r"bare\.py: a definition has a docstring and a function page"):
        autofn.report(tmp_path, tmp_path / "html", definitions=tmp_path)


def test_the_repositorys_definitions_build(tmp_path: Path) -> None:
    sample.write_everything(tmp_path)
    pages = autofn.report(tmp_path, tmp_path / "html", definitions=Path(__file__).parents[1] / "reports")
    assert {"index.html", "comparison.html", "commits.html"} <= {path.name for path in pages}


def test_without_results_the_command_says_what_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoResultsError, match="run `autofn bench` or `asv run` first"):
        autofn.report(tmp_path)
    with pytest.raises(Exit) as stop:
        report_command(out=tmp_path / "html", root=tmp_path)
    assert stop.value.exit_code == 3
    assert "autofn bench" in capsys.readouterr().err


def test_the_command_prints_where_each_page_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample.write_run(tmp_path, "bench", [record()])
    report_command(out=tmp_path / "html", root=tmp_path)
    printed = capsys.readouterr().out.split()
    assert [Path(line).name for line in printed] == ["index.html", "commits.html", "comparison.html"]
    assert all(Path(line).is_file() for line in printed)


def test_results_with_no_time_at_all_still_make_a_page(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "check", sample.check_records(["clipped_relu"]))
    text = autofn.report(tmp_path, tmp_path / "html")[-1].read_text()
    assert "1 of 10 failed" in text
    assert not re.search(r"\bnan\b", re.sub(r"(?s)<script>.*?</script>", "", text))


def test_the_definition_and_the_section_in_the_documentation_work(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "docs" / "reports.md").read_text()
    definition, section = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "large.py").write_text(definition)
    sample.write_run(tmp_path, "bench", [record(workload="large"), record(workload="tiny")])
    page = autofn.report(tmp_path, tmp_path / "html", definitions=tmp_path)[1].read_text()
    assert "<h1>Large workloads</h1>" in page
    assert ">tiny<" not in page

    names: dict[str, Any] = {}
    exec(section, names)
    assert table_of(names["section"](given(record(), record(dtype="float64")))) == [
        {"Variant": Cell("eager"), "Results": Cell(2.0)}
    ]


def test_the_verdict_of_a_run_over_processes_stands_beside_the_speedup() -> None:
    def sampled(variant: str, factor: float, **detail: Any) -> Record:
        samples = tuple(1e-3 * factor * (1 + 0.001 * (i % 5)) for i in range(24))
        return record(variant=variant, samples=samples, detail={"generations": [3] * 8, **detail})

    eager = sampled("eager", 1.0)
    again = {"again": list(eager.samples)}
    rows = table_of(
        variants.section(given(sampled("eager", 1.0, **again), sampled("cpp", 0.5), sampled("python", 1.0)))
    )
    cpp, python = row_of(rows, Variant="cpp")["Speedup"], row_of(rows, Variant="python")["Speedup"]
    assert (cpp.value, cpp.tone) == (pytest.approx(2), "good")
    assert cpp.badge is not None
    assert cpp.badge.text == "faster"
    assert cpp.note.startswith("two arms of eager may differ by 0.0%")
    assert (python.badge.text if python.badge else "", python.tone) == ("same", "")


def test_the_matrix_is_neutral_where_workloads_disagree() -> None:
    found = [record(value=4e-3, low=4e-3, high=4e-3), record(variant="cpp"), record(variant="python")]
    tiny = [record(workload="tiny"), record(variant="cpp", workload="tiny", value=9e-3, low=9e-3, high=9e-3)]
    row = row_of(table_of(matrix.section(given(*found, *tiny))), Function="clipped_relu")
    assert (row["cpp"].tone, row["python"].tone) == ("", "good")


def test_what_the_journal_knows_of_an_asv_result_is_on_the_page(tmp_path: Path) -> None:
    sample.write_everything(tmp_path, ["clipped_relu"])
    found = inputs.load(tmp_path).results
    rows = table_of(machine.section(Inputs(found[found["source"] == "asv"])))
    assert [(row["Allocator"].value, row["Threads"].value) for row in rows] == [("stock", 1)]
