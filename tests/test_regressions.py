"""Steps in a history are told from the recorded intervals: all that are planted, and nothing of what is noise."""

from __future__ import annotations

import json
import random

import pytest
from support import commit, git, python

from autofn import results
from autofn.measure.rows import Group, Rows
from autofn.records import Journal, Record
from autofn.regressions import steps

ORDER = [f"{number:040x}" for number in range(12)]
SERVERS, GENERATIONS, ROUNDS = 6, 2, 4


def samples(seconds, draw, spread):
    """Flat samples of servers that differ by `spread`, each with generations that differ less."""
    return tuple(
        seconds * (1 + server_off) * (1 + draw.gauss(0, spread / 4))
        for server_off in (draw.gauss(0, spread) for _ in range(SERVERS))
        for _ in range(GENERATIONS * ROUNDS)
    )


def time_rows(commit_hash, draw, times, spread=0.004, **said):
    """Eager, its second arm, and others whose seconds are given, of one run at one commit."""
    rows = Rows(Group("ant", "small", "float32", "cpu"), ("forward",))
    shape = {"generations": [ROUNDS] * SERVERS * GENERATIONS, "servers": [GENERATIONS] * SERVERS}
    for variant, seconds in times.items():
        detail = {**shape, "again": list(samples(seconds, draw, spread))} if variant == "eager" else shape
        taken = samples(seconds, draw, spread)
        yield rows.time(
            variant, "forward", "wall", value=seconds, low=seconds * (1 - spread), high=seconds * (1 + spread),
            samples=taken, processes=SERVERS, detail=detail, commit=commit_hash, run=commit_hash[:6], source="asv",
            date="2026-01-01T00:00:00+00:00", version="1", machine="here", **said,
        )  # fmt: skip


def history(cpp, eager=lambda number: 1e-3, spread=0.004, seed=0):
    """A frame in which `cpp(number)` and `eager(number)` are the seconds at each commit."""
    draw = random.Random(seed)
    return results.frame(
        row
        for number, commit_hash in enumerate(ORDER)
        for row in time_rows(commit_hash, draw, {"eager": eager(number), "cpp": cpp(number)}, spread)
    )


def told(frame, order=ORDER):
    return [(step.variant, ORDER.index(step.commit)) for step in steps(frame, order)]


def test_a_slowdown_is_told_with_its_commit_its_size_and_its_floor():
    (step,) = steps(history(lambda number: 1e-4 * (1.1 if number >= 5 else 1)), ORDER)
    assert (step.function, step.variant, step.phase, step.metric) == ("ant", "cpp", "forward", "time_s")
    assert (step.commit, step.before) == (ORDER[5], ORDER[4])
    assert step.factor == pytest.approx(1.1, rel=0.02)
    assert step.low < 1.1 < step.high
    assert 0 < step.floor < 0.02
    assert step.usual < 0.02
    assert step.worse


def test_a_gain_is_a_step_that_is_not_worse():
    (step,) = steps(history(lambda number: 1e-4 / (1.2 if number >= 3 else 1)), ORDER)
    assert (ORDER.index(step.commit), step.worse) == (3, False)


def test_the_last_commit_may_be_the_one():
    assert told(history(lambda number: 1e-4 * (1.2 if number == 11 else 1))) == [("cpp", 11)]


def test_what_hits_all_variants_of_a_day_alike_is_no_step_of_theirs():
    slow_days = {3, 4, 7}

    def day(number):
        return 1.15 if number in slow_days else 1

    found = told(history(lambda number: 1e-4 * day(number), lambda number: 1e-3 * day(number)))
    assert ("cpp", 3) not in found
    assert not [variant for variant, _ in found if variant == "cpp"]


def test_a_day_on_which_a_case_was_slow_and_then_no_more_is_no_step():
    assert told(history(lambda number: 1e-4 * (1.2 if number == 6 else 1))) == []


def test_a_history_that_jumps_about_has_no_steps_of_the_size_of_its_jumps():
    draw = random.Random(1)
    jumps = [draw.uniform(0.9, 1.1) for _ in ORDER]
    assert told(history(lambda number: 1e-4 * jumps[number])) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_step(seed):
    assert told(history(lambda number: 1e-4, spread=0.02, seed=seed)) == []


def test_of_two_steps_the_worse_comes_first():
    frame = history(lambda number: 1e-4 * (1.1 if number >= 2 else 1) * (1.3 if number >= 8 else 1))
    assert told(frame) == [("cpp", 8), ("cpp", 2)]


def test_the_order_is_that_of_history_not_that_of_the_rows():
    frame = history(lambda number: 1e-4 * (1.2 if number >= 5 else 1))
    assert told(frame.sample(frac=1, random_state=0)) == [("cpp", 5)]
    assert steps(frame, ORDER[:5]) == [], "commits that are not in the order are left out"


def test_another_machine_version_or_torch_is_another_history():
    draw = random.Random(0)
    for name, value in {"machine": "there", "version": "2", "torch": "2.14"}.items():
        rows = [
            row
            for number, commit_hash in enumerate(ORDER)
            for row in time_rows(commit_hash, draw, {"eager": 1e-3, "cpp": 1e-4 * (1.5 if number >= 5 else 1)})
        ]
        changed = results.frame(Record(**{**vars(row), name: value}) if row.commit >= ORDER[5] else row for row in rows)
        assert steps(changed, ORDER) == [], name


def byte_row(number, value, metric="saved_new_bytes"):
    rows = Rows(Group("ant", "small", "float32", "cpu"), ("forward",), {"commit": ORDER[number], "machine": "here"})
    return rows.record("cpp", "forward", metric, "bytes", value=value)


def test_every_change_of_bytes_is_a_step_even_from_none_and_for_one_commit():
    values = [0, 0, 8, 8, 16, 8]
    found = steps(results.frame(byte_row(number, value) for number, value in enumerate(values)), ORDER)
    assert sorted((ORDER.index(step.commit), step.worse) for step in found) == [(2, True), (4, True), (5, False)]


def test_rows_without_a_value_are_no_part_of_the_history():
    rows = [byte_row(0, 8), Record(**{**vars(byte_row(1, None)), "status": "n/a", "reason": "gone"}), byte_row(2, 8)]
    assert steps(results.frame(rows), ORDER) == []


@pytest.fixture
def repository(tmp_path):
    """Six commits with results, of which the fourth made a case slower."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    (tmp_path / ".gitignore").write_text(".autofn/\n")
    hashes = []
    for number in range(6):
        (tmp_path / "file").write_text(str(number))
        hashes.append(commit(tmp_path, f"change <b>{number}</b> [red]"))
    draw = random.Random(0)
    journal = Journal(tmp_path / ".autofn" / "runs" / "bench-1.jsonl")
    for number, commit_hash in enumerate(hashes):
        journal.append(time_rows(commit_hash, draw, {"eager": 1e-3, "cpp": 1e-4 * (1.5 if number >= 3 else 1)}))
    return tmp_path, hashes


def run(folder, *words, status):
    done = python("-m", "autofn", "regressions", *words, cwd=folder, package=results.__file__.rpartition("/autofn/")[0])
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_command_names_case_commit_size_and_floor_and_ends_with_1(repository):
    folder, hashes = repository
    out = run(folder, "--json", folder / "found.json", status=1)
    (step,) = json.loads((folder / "found.json").read_text())
    assert (step["variant"], step["commit"]) == ("cpp", hashes[3])
    assert "ant cpp small float32 cpu" in out
    assert hashes[3][:8] in out
    assert "change <b>3</b> [red]" in out
    assert "+5" in out


def test_since_leaves_out_what_came_before(repository):
    folder, hashes = repository
    assert "no regression in 6 commits" in run(folder, "--since", hashes[3], status=0)
    run(folder, "--since", hashes[2], status=1)
    assert "no revision 'nowhere'" in run(folder, "--since", "nowhere", status=2)


def test_without_results_of_two_commits_there_is_nothing_to_tell(tmp_path):
    git(tmp_path, "init", "--quiet")
    assert "results of two commits are needed, there are 0" in run(tmp_path, status=3)
