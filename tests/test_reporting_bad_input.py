"""Whatever lies in the results, the report is made, and what it shows is true."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import sample_results as sample

import autofn
from autofn.records import Record
from autofn.reporting import NoResultsError, read
from autofn.reporting.text import as_json, as_markdown

record = sample.record
HOSTILE = sample.HOSTILE
NAN = float("nan")


def raw(root: Path, *lines: str) -> None:
    path = root / ".autofn" / "runs" / "raw.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def run(*records: Record) -> Callable[[Path], None]:
    return lambda root: sample.write_run(root, "run", records)


def not_a_number(root: Path) -> None:
    """NaN is no JSON, but Python writes and reads it."""
    line = json.loads(json.dumps({"function": "exp", "variant": "cpp", "workload": "tiny", "dtype": "float32"}))
    line |= {"device": "cpu", "phase": "forward", "metric": "time_s", "unit": "s", "value": NAN, "low": NAN}
    raw(root, json.dumps(line), json.dumps(line | {"variant": "eager", "value": 1e-3, "low": None}))


def hostile_everywhere(root: Path) -> None:
    (commit,) = sample.commit_history(root, [f"subject {HOSTILE}"])
    given = dict.fromkeys(("function", "variant", "workload", "machine", "device_model"), HOSTILE)
    sample.write_run(
        root, "run", [record(commit=commit, **given), record(commit=commit, reason=HOSTILE, status="failed")]
    )


def formats_of_several_versions(root: Path) -> None:
    """An asv file of the version before, one of ours with fields of a later version, and one that lacks a field."""
    folder = root / ".asv" / "results" / "vm"
    folder.mkdir(parents=True)
    (folder / "old.json").write_text(json.dumps({"version": 1, "results": {}}))
    known = {"function": "exp", "variant": "eager", "workload": "tiny", "dtype": "float32", "device": "cpu"}
    known |= {"phase": "forward", "metric": "time_s", "unit": "s", "value": 1e-3}
    raw(root, json.dumps({**known, "colour": "blue"}), json.dumps({"function": "exp"}))


def two_machines_of_one_name(root: Path) -> None:
    one = {"run": "r1", "device_model": "EPYC", "value": 4e-3, "low": 4e-3, "high": 4e-3}
    other = {"run": "r2", "device_model": "Xeon", "value": 1e-3, "low": 1e-3, "high": 1e-3}
    sample.write_run(root, "one", [record(**one)])
    sample.write_run(root, "two", [record(**other, variant="cpp")])


BACK = "2020-01-01T00:00:00+00:00"
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "not a number": (not_a_number, r">n/a<small class=\"why\">no reason recorded"),
    "script tags in names, subjects and reasons": (hostile_everywhere, r"&lt;script&gt;alert\(1\)&lt;/script&gt;"),
    "several versions of the format": (formats_of_several_versions, r"old\.json: skipped, not a result file"),
    "two machines of one name are not divided": (two_machines_of_one_name, r"no eager in this run"),
    "no baseline": (run(record(variant="cpp")), r"no eager in this run"),
    "one sample": (run(record(samples=(1e-3,), low=None, high=None)), r">1\.00 ms<"),
    "one commit": (run(record()), r">1\.00 ms<small>0\.900 to 1\.10</small>"),
    "a time of zero": (run(record(value=0.0, low=0.0, high=0.0)), r"exp|clipped_relu"),
    "a negative time, of a clock that went backwards": (
        run(record(), record(variant="cpp", value=-1e-3, low=-2e-3, high=1e-3, samples=(-1e-3, -2e-3))),
        r">cpp<",
    ),
    "dates that go backwards": (
        run(record(commit="a" * 40, date="2026-11-20T10:00:00+00:00"), record(commit="b" * 40, run="r2", date=BACK)),
        r"2020-01-01",
    ),
    "no date": (run(record(date="")), r"no date|not recorded"),
    "a date that is none": (run(record(date="yesterday")), r"no date|not recorded"),
    "nothing but failures": (run(record(status="failed", reason="out of memory")), r"out of memory"),
    "no commit and no machine": (run(record(commit="", machine="")), r"measured outside a git repository"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_shows_something_true(case: str, tmp_path: Path) -> None:
    write, shown = CASES[case]
    write(tmp_path)
    pages = autofn.report(tmp_path, tmp_path / "html")
    texts = [without_scripts(path.read_text()) for path in pages]
    assert re.search(shown, "".join(texts)), case
    for text in texts:
        assert not re.search(r"\b(nan|inf|NaT|None|Infinity)\b", text), re.findall(r".{40}\bnan\b.{20}", text)
    inputs = read(tmp_path)
    assert HOSTILE not in as_markdown(inputs)
    json.loads(as_json(inputs))


def without_scripts(text: str) -> str:
    """What a page holds but for its own scripts: a script tag from outside would stay."""
    assert text.count("<script>") + text.count('<script type="application/json"') == text.count("</script>")
    assert f"{HOSTILE}" not in text
    return re.sub(r"(?s)<script.*?</script>|<style>.*?</style>", "", text)


def test_zero_results_are_named_as_such_in_every_format(tmp_path: Path) -> None:
    with pytest.raises(NoResultsError, match="run `autofn bench` or `asv run` first"):
        read(tmp_path)
    raw(tmp_path, "{")
    with pytest.raises(NoResultsError, match=r"raw\.jsonl: skipped"):
        read(tmp_path)
