"""`autofn results`: the list of runs, the exports, and the example of docs/results.md."""

from __future__ import annotations

import json
import re
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sample_results as sample
from typer.testing import CliRunner, Result

from autofn import results
from autofn.cli import app
from autofn.export import FORMS, export

DOCUMENT = Path(__file__).parents[1] / "docs" / "results.md"
LEDGER = {"ledger": [{"shape": [3], "bytes": 12}]}


@pytest.fixture
def frame() -> pd.DataFrame:
    """A time with samples, bytes with a ledger, and what could not run, whose values are missing."""
    return results.frame(
        [
            sample.record(samples=(1e-3, 2e-3), processes=2),
            sample.record(metric="saved_bytes", unit="bytes", value=12.0, low=None, high=None, detail=LEDGER),
            sample.record(variant="triton", status="n/a", reason='needs "cuda", not\ncpu', threads=None, date=""),
        ]
    )


def test_json_holds_every_column_with_null_for_what_is_missing(frame: pd.DataFrame) -> None:
    first, saved, missing = json.loads(export(frame, "json"))
    assert list(first) == list(frame.columns)
    assert (first["value"], first["samples"], first["processes"]) == (1e-3, [1e-3, 2e-3], 2)
    assert first["date"] == "2026-11-20T10:00:00.000000Z"
    assert (saved["detail"], saved["low"]) == (LEDGER, None)
    assert (missing["value"], missing["threads"], missing["date"]) == (None, None, None)


def test_csv_comes_back_as_it_was(frame: pd.DataFrame) -> None:
    found = pd.read_csv(StringIO(export(frame, "csv").decode()), keep_default_na=False, na_values={"value": [""]})
    assert list(found.columns) == list(frame.columns)
    assert found["reason"].tolist() == ["", "", 'needs "cuda", not\ncpu']
    assert found["value"].isna().tolist() == [False, False, True]
    assert json.loads(found["samples"][0]) == [1e-3, 2e-3]
    assert json.loads(found["detail"][1]) == LEDGER
    assert found["detail"][0] == ""


def test_parquet_keeps_samples_as_lists(frame: pd.DataFrame) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: it is in the extra parquet")
    found = pd.read_parquet(BytesIO(export(frame, "parquet")))
    assert list(found.columns) == list(frame.columns)
    assert found["samples"].map(list).tolist() == [[1e-3, 2e-3], [], []]
    assert found["date"].isna().tolist() == [False, False, True]
    assert json.loads(found["detail"][1]) == LEDGER


def test_without_pyarrow_parquet_names_the_extra(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("pyarrow")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", missing)
    with pytest.raises(ValueError, match=r"pip install 'autofn\[parquet\]', or take csv or json"):
        export(frame, "parquet")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["results", *words], env={"COLUMNS": "120"})


def test_the_command_lists_runs_and_names_what_it_skipped(tmp_path: Path) -> None:
    sample.write_run(tmp_path, "bench", [sample.record(), sample.record(variant="cpp", status="failed", reason="x")])
    (tmp_path / ".autofn/runs/damaged.jsonl").write_text("{\n")
    found = run("--root", str(tmp_path))
    assert found.exit_code == 0
    row = next(line for line in found.stdout.splitlines() if "bench-1" in line)
    assert re.split(r"[│ ]+", row)[1:-1] == ["bench", "bench-1", "cccccccc", "cpu", "1", "2", "1", "2026-11-20"]
    assert "damaged.jsonl: skipped" in found.stderr


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"parquet"}))
def test_out_holds_what_the_terminal_would(tmp_path: Path, form: str) -> None:
    sample.write_run(tmp_path, "bench", [sample.record(), sample.record(function="exp")])
    file = tmp_path / "out" / f"exp.{form}"
    printed = run("exp", "--root", str(tmp_path), "--export", form)
    assert run("exp", "--root", str(tmp_path), "--export", form, "--out", str(file)).exit_code == 0
    assert printed.stdout == file.read_text()
    assert "exp" in printed.stdout
    assert "clipped_relu" not in printed.stdout


def test_without_results_the_command_says_what_measures(tmp_path: Path) -> None:
    found = run("exp", "--root", str(tmp_path))
    assert found.exit_code == 3
    assert "there are none of exp below" in found.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--export", "xml"], "the format must be one of csv, json, parquet, got 'xml'"),
        (["--export", "parquet"], "name a file with --out"),
    ],
)
def test_misuse_is_named(tmp_path: Path, words: list[str], message: str) -> None:
    sample.write_run(tmp_path, "bench", [sample.record()])
    found = run("--root", str(tmp_path), *words)
    assert isinstance(found.exception, ValueError)
    assert message in str(found.exception)


def test_the_documentation_tells_of_every_column() -> None:
    told = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", DOCUMENT.read_text(), re.MULTILINE)))
    assert set(told) == set(results.frame(()).columns)


def test_the_example_of_the_documentation_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample.write_run(tmp_path, "bench", sample.bench_records(["exp"]))
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(example, {})
    speedups, beside, missing = capsys.readouterr().out.split("variant")[1:4]
    assert re.search(r"exp +large .* 2\.\d", speedups)
    assert "exp" in beside
    assert "runs on cuda only, not on cpu" in missing
