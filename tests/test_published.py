"""Published reports: raw results with their command and commit, of which the same pages are made again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import sample_results as sample
from typer.testing import CliRunner

import autofn
from autofn.cli import app
from autofn.reporting import NoResultsError, published

FUNCTIONS = ("clipped_relu", "exp")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of which asv measured every commit, and bench and check the last one."""
    *_, last = hashes = sample.commit_history(tmp_path, ["first", "second", "third", "fourth"])
    sample.write_asv(tmp_path, FUNCTIONS, hashes)
    sample.write_run(tmp_path, "bench", sample.bench_records(FUNCTIONS, commit=last))
    sample.write_run(tmp_path, "check", sample.check_records(FUNCTIONS, commit=last))
    return tmp_path


def texts(pages: list[Path]) -> dict[str, str]:
    return {path.name: path.read_text() for path in pages}


def test_pages_made_of_a_published_report_are_those_of_the_results(root: Path) -> None:
    direct = texts(autofn.report(root, root / "html"))
    (folder,) = published.publish(root, "make report")
    assert texts(published.pages(folder, root / "build" / "site")) == direct
    assert {"index.html", "comparison.html", "commits.html"} <= set(direct)
    assert "third" in direct["commits.html"]
    left = {path.name for path in (root / "build" / "site").iterdir()}
    assert left == set(direct)


def test_it_says_its_command_commit_and_machine(root: Path) -> None:
    last = sorted((root / ".asv" / "results" / "bench-1").glob("*-existing.json"))
    (folder,) = published.publish(root, "make report")
    told = published.told_of(folder)
    assert (told.command, told.machine) == ("make report", "bench-1")
    assert folder == root / "reports" / "published" / "bench-1" / told.commit[:8] / "report"
    assert any(path.name.startswith(told.commit[:8]) for path in last)
    assert published.found(root / "reports" / "published") == [folder]


def test_what_a_changed_tree_gave_and_other_commits_runs_are_left_out(root: Path) -> None:
    last = published.told_of(published.publish(root, "make report")[0]).commit
    sample.write_run(root, "changed", [sample.record(commit=f"{last}+dirty", run="r2")])
    sample.write_run(root, "other", [sample.record(commit="f" * 40, date="2026-11-01T00:00:00+00:00", run="r3")])
    sample.write_run(root, "elsewhere", [sample.record(commit=last, machine="bench-2", run="r4")])
    (root / "reports").rename(root / "before")
    first, second = published.publish(root, "make report")
    assert (first.parts[-3], second.parts[-3]) == ("bench-1", "bench-2")
    assert {path.name for path in (first / "runs").iterdir()} == {"bench.jsonl.gz", "check.jsonl.gz"}
    assert [path.relative_to(second).as_posix() for path in second.rglob("*.gz")] == ["runs/elsewhere.jsonl.gz"]


def test_of_an_earlier_commit_asv_is_kept_up_to_it_alone(root: Path) -> None:
    results = root / ".asv" / "results" / "bench-1"
    by_date = sorted(results.glob("*-existing.json"), key=lambda path: json.loads(path.read_text())["date"])
    hashes = [json.loads(path.read_text())["commit_hash"] for path in by_date]
    (folder,) = published.publish(root, "make report", head=hashes[1])
    kept = {path.name for path in (folder / "asv" / "results" / "bench-1").iterdir()}
    assert kept == {"machine.json.gz", *(f"{path.name}.gz" for path in by_date[:2])}
    assert {path.parts[-3] for path in (folder / "asv" / "journal").rglob("*.gz")} == set(hashes[:2])
    assert not (folder / "runs").exists()


def test_damaged_files_are_named_and_the_rest_is_there(root: Path) -> None:
    (folder,) = published.publish(root, "make report")
    bench, *_ = (folder / "runs").glob("bench*")
    bench.write_bytes(bench.read_bytes()[:-20])
    (asv, *_) = sorted((folder / "asv" / "results" / "bench-1").glob("*-existing.json.gz"))
    asv.write_bytes(gzip.compress(b'{"version": 2'))
    made = texts(published.pages(folder, root / "site"))
    for text in made.values():
        assert "runs/bench.jsonl.gz: skipped, cannot be unpacked" in text
        assert f"asv/results/bench-1/{asv.name.removesuffix('.gz')}: skipped, not a result file" in text
        assert str(root) not in text
    assert "of 10 failed" in made["comparison.html"]
    assert made["commits.html"].count('<figure class="plot"') > 0


def test_a_file_put_there_unpacked_is_read_too(root: Path) -> None:
    direct = texts(autofn.report(root, root / "html"))
    (folder,) = published.publish(root, "make report")
    for path in list(folder.rglob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert texts(published.pages(folder, root / "site")) == direct


def test_a_report_of_which_nothing_can_be_read_names_its_files(root: Path) -> None:
    (folder,) = published.publish(root, "make report")
    for path in folder.rglob("*.gz"):
        path.write_bytes(b"no gzip")
    with pytest.raises(NoResultsError, match=r"none of its results can be read\n(.*\n)*runs/bench\.jsonl\.gz"):
        published.pages(folder, root / "site")


@pytest.mark.parametrize("content", ['{"command": "x"}', "[]", "{", '{"command":1,"commit":"","machine":"","date":""}'])
def test_a_report_that_does_not_say_what_it_is_of_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(published.UntoldError, match=r"report\.json: a published report says its command, commit"):
        published.told_of(tmp_path)


def publishing(root: Path, *words: str) -> tuple[int, str, str]:
    run = CliRunner().invoke(app, ["report", "--root", str(root), "--publish", "make report", *words])
    return run.exit_code, run.output, str(run.exception or "")


def test_the_command_prints_the_folder_and_does_not_overwrite_it(root: Path) -> None:
    status, printed, _ = publishing(root)
    (folder,) = published.found(root)
    assert (status, printed.split()) == (0, [str(folder)])
    assert not (root / "html").exists()
    assert "is there already; remove it to publish anew" in publishing(root)[2]


def test_mistakes_are_told(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert "goes without --base and --format" in publishing(root, "--format", "json")[2]
    assert "there is no revision" in publishing(root, "--head", "1" * 40)[2]
    changed = tmp_path_factory.mktemp("changed")
    sample.write_run(changed, "bench", [sample.record(commit="c" * 40 + "+dirty")])
    assert "got only changed trees of cccccccc; commit, and measure again" in publishing(changed)[2]
    assert publishing(tmp_path_factory.mktemp("empty"))[0] == 3
