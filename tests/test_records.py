"""Records survive the way to disk and back; a journal survives a kill; a file is whole or not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from autofn import records
from autofn.records import Journal, Record, from_line, to_line, write_atomically

CASE = {"function": "f", "variant": "eager", "workload": "tiny", "dtype": "float32", "device": "cpu"}


def record(**changes):
    return Record(**{**CASE, "phase": "forward", "metric": "time_s", "unit": "s", "value": 1.5, **changes})


FULL = record(
    value=0.0, low=-0.0, high=1e-300, samples=(1e-6, 2.5e-6), number=3, processes=1,
    status="failed", reason='µ "x"\n\u2028', detail={"ledger": [{"shape": [2, 3], "bytes": 0}]},
    source="asv", run="r", machine="m", commit="c", date="2026-11-30", version="1", protocol="calls/1",
    threads=1, device_model="d", driver="v", torch="2", allocator="stock", cache="warm",
)  # fmt: skip


@pytest.mark.parametrize(
    "one", [record(), FULL, record(value=None, unit="")], ids=["short", "full", "no value, no unit"]
)
def test_a_record_comes_back_from_its_line_as_it_was(one):
    line = to_line(one)
    assert len(line.splitlines()) == 1
    assert from_line(line) == one


def test_a_value_of_zero_is_written_and_an_empty_field_is_not():
    found = json.loads(to_line(record(value=0.0, number=0)))
    assert (found["value"], found["number"]) == (0.0, 0)
    assert not {"samples", "reason", "low", "detail"} & set(found)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_has_no_word_for_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        to_line(record(value=value))


def test_fields_of_a_later_version_are_left_out():
    line = json.dumps({**json.loads(to_line(FULL)), "colour": "red"})
    assert from_line(line) == FULL


@pytest.mark.parametrize(
    "line",
    ["", "nonsense", "[]", "3", "null", "{}", '{"function": "f"}', to_line(FULL)[:-1], to_line(FULL)[:40]],
)
def test_a_line_that_holds_no_record_is_a_value_error(line):
    with pytest.raises(ValueError):  # noqa: PT011  (json and records word it each in its own way)
        from_line(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("value", "fast"), ("low", []), ("samples", 5), ("samples", ["a"]), ("function", 5), ("detail", 3),
        ("threads", "two"), ("reason", None),
    ],
)  # fmt: skip
def test_a_field_of_another_kind_is_a_value_error_that_names_it(name, value):
    line = json.dumps({**json.loads(to_line(FULL)), name: value})
    with pytest.raises(ValueError, match=name):
        from_line(line)


def test_a_journal_gives_back_what_was_appended_in_order(tmp_path):
    path = tmp_path / "deep" / "journal.jsonl"
    one, two, three = (record(value=value) for value in (1.0, 2.0, 3.0))
    journal = Journal(path)
    assert list(journal.records()) == []
    journal.append([one, two])
    journal.append([])
    Journal(path).append([three])
    assert list(journal.records()) == [one, two, three]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_cut_short_is_left_out_and_the_next_one_is_whole(tmp_path, cut):
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append([record(value=1.0), record(value=2.0)])
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path)
    again.append([record(value=3.0)])
    # A cut that took only the end of line took nothing of the record.
    kept = [1.0, 3.0] if cut > 1 else [1.0, 2.0, 3.0]
    assert [r.value for r in again.records()] == kept


def test_bytes_that_are_no_text_do_not_hide_the_other_lines(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(to_line(record()).encode() + b"\n\xff\xfe\x00\n" + to_line(record(value=2.0)).encode() + b"\n")
    assert [r.value for r in Journal(path).records()] == [1.5, 2.0]


APPENDING = """
import sys
from pathlib import Path
from autofn.records import Journal, Record
journal = Journal(Path(sys.argv[1]))
case = dict(function="f", variant="v", workload="w", dtype="d", device="cpu", phase="p", metric="m")
for number in range(10**9):
    journal.append([Record(**case, value=float(number), detail={"pad": "x" * 20000}) for _ in range(3)])
    print(number, flush=True)
"""


def test_what_was_appended_before_a_kill_is_there_after_it(tmp_path):
    path = tmp_path / "journal.jsonl"
    process = subprocess.Popen([sys.executable, "-c", APPENDING, str(path)], stdout=subprocess.PIPE, text=True)
    promised = -1
    end = time.monotonic() + 1.0
    for line in process.stdout:
        promised = int(line)
        if time.monotonic() > end:
            break
    os.kill(process.pid, signal.SIGKILL)
    for line in process.stdout:
        promised = int(line)
    process.stdout.close()
    process.wait()
    journal = Journal(path)
    journal.append([record(value=-1.0)])
    found = [r.value for r in journal.records()]
    assert promised > 0
    assert found[: 3 * (promised + 1)] == [float(n) for n in range(promised + 1) for _ in range(3)]
    assert found[-1] == -1.0


def test_a_file_is_replaced_as_a_whole_and_readable_by_others(tmp_path):
    path = tmp_path / "new" / "file.json"
    write_atomically(path, "one")
    write_atomically(path, "two")
    assert path.read_text() == "two"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_atomically(path, "old")

    def full(*args):
        raise OSError("no space left on device")

    monkeypatch.setattr(records.os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file.json", "old")]
