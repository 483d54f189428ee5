"""From verdicts and checks to what "auto" means; the results are made up."""

from __future__ import annotations

import json

import pytest
from support import DECLARATION, plant, unplant, write_function
from test_speedups import arm
from typer.testing import CliRunner

import autofn
from autofn import choice, choosing, cli, results
from autofn.breakeven import sizes
from autofn.records import FAILED, RUNS, Journal, Record

SIZES = {"tiny": 10, "small": 1000, "large": 100_000}
OTHERS = dict.fromkeys(("native", "cpp", "fused"), "from .reference import square as apply\n\n__all__ = ['apply']\n")


@pytest.fixture(autouse=True)
def planted(tmp_path):
    """`square` over 10, 1,000 and 100,000 numbers."""
    declaration = DECLARATION
    for workload, old in {"tiny": 6, "small": 64, "large": 128}.items():
        declaration = declaration.replace(f'"{workload}": {{"n": {old}}}', f'"{workload}": {{"n": {SIZES[workload]}}}')
    write_function(tmp_path, "square", declaration, **OTHERS)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, tmp_path)
        yield
    unplant()
    sizes.cache_clear()


def times(workloads=tuple(SIZES), again=1.0, **seconds):
    """Of `eager`, which takes 1 s, and of each variant, at each size or at all."""
    made = []
    for number, workload in enumerate(workloads):
        arms = [arm("eager", 1.0, 1, again=again)]
        for seed, (variant, taken) in enumerate(seconds.items(), start=2):
            arms.append(arm(variant, taken[number] if isinstance(taken, tuple) else taken, seed))
        made += [changed(each, workload=workload) for each in arms]
    return made


def changed(record, **fields):
    told = {"function": "square", "phase": "forward_backward", "date": "2026-11-20T10:00:00+00:00", "version": "1"}
    return Record(**{**vars(record), **told, **fields})


def checks(*variants, **fields):
    return [
        changed(Record("square", variant, "tiny", "float32", "cpu", "check", "value", source="check", machine="vm"),
                phase="check", **fields)
        for variant in variants
    ]  # fmt: skip


PASSED = checks("native", "python", "fused", "cpp")


def steps(*records):
    found = choosing.choose("square", results.frame(records))
    return found and found["devices"]["cpu"]["dtypes"]["float32"]


def test_the_fastest_at_each_size_is_chosen_from_half_way_between_sizes_on():
    made = times(python=(0.5, 0.8, 0.9), cpp=(0.7, 0.4, 0.3))
    assert steps(*made, *PASSED) == [[0, "python"], [100, "cpp"]]


def test_what_is_not_surely_faster_is_not_chosen():
    assert steps(*times(python=1.0, cpp=1.5), *PASSED) == [[0, "eager"]]
    assert steps(*times(again=1.2, cpp=1.05), *PASSED) == [[0, "eager"]]


def test_of_two_that_cannot_be_told_apart_the_simpler_is_chosen():
    assert steps(*times(cpp=0.5, python=0.5003, native=0.6), *PASSED) == [[0, "python"]]
    assert steps(*times(cpp=0.5, python=0.55), *PASSED) == [[0, "cpp"]]


def test_what_compiles_is_never_chosen():
    assert steps(*times(fused=0.1, compile=0.1, cpp=0.5), *PASSED) == [[0, "cpp"]]


@pytest.mark.parametrize(
    "checked",
    [
        [],
        checks("cpp", status="n/a", reason="no"),
        checks("cpp") + checks("cpp", metric="gradient", status=FAILED, reason="wrong"),
        checks("cpp") + checks("cpp", date="2026-11-21T10:00:00+00:00", status=FAILED, reason="wrong"),
    ],
    ids=["not checked", "could not be checked", "an error in another rule", "an error since"],
)
def test_only_what_was_checked_without_an_error_is_chosen(checked):
    assert steps(*times(cpp=0.5, python=0.7), *checked, *checks("python")) == [[0, "python"]]


def test_an_error_that_was_mended_does_not_count():
    wrong = checks("cpp", date="2026-11-19T10:00:00+00:00", status=FAILED, reason="wrong")
    assert steps(*times(cpp=0.5), *wrong, *PASSED) == [[0, "cpp"]]


def test_the_newest_verdict_counts_and_a_later_run_without_verdicts_does_not():
    old = times(cpp=0.5)
    later = {"date": "2026-11-21T10:00:00+00:00", "run": "later"}
    new = [changed(each, **later) for each in times(cpp=1.5)]
    quick = [changed(each, **later, samples=each.samples[:5], detail={}) for each in times(cpp=1.5)]
    assert steps(*old, *new, *PASSED) == [[0, "eager"]]
    assert steps(*old, *quick, *PASSED) == [[0, "cpp"]]


def test_results_of_other_inputs_or_phases_count_for_nothing():
    made = times(cpp=0.5)
    assert steps(*(changed(each, version="0") for each in made), *PASSED) is None
    assert steps(*(changed(each, phase="forward") for each in made), *PASSED) is None
    assert steps(*PASSED) is None


def test_results_of_several_machines_ask_for_one():
    made = times(("tiny", "small"), cpp=0.5) + [changed(each, machine="other") for each in times(("large",), cpp=0.5)]
    with pytest.raises(ValueError, match=r"got results of other, vm; give --machine$"):
        steps(*made, *PASSED)


def test_the_file_says_where_it_comes_from_and_is_what_a_call_reads():
    content = choosing.choose("square", results.frame([*times(cpp=(1.0, 0.5, 0.5)), *PASSED]))
    assert content["elements_of"] == "x"
    choosing.write("square", content)
    found = json.loads(choice.path("square").read_text())["devices"]["cpu"]["measured"]
    assert (found["machine"], found["commit"], found["date"]) == ("vm", "c", "2026-11-20")
    assert choice.steps("square", "cpu", "float32") == ((0, "eager"), (100, "cpp"))
    assert autofn.square.__name__ == "square"


def test_another_device_that_was_measured_before_stays():
    choosing.write(
        "square", {"elements_of": "x", "devices": {"cuda": {"measured": {}, "dtypes": {"float32": [[0, "cpp"]]}}}}
    )
    choosing.write("square", choosing.choose("square", results.frame([*times(cpp=0.5), *PASSED])))
    assert choice.read("square").steps == {("cuda", "float32"): ((0, "cpp"),), ("cpu", "float32"): ((0, "cpp"),)}


def test_the_command_chooses_from_the_results_of_a_machine_and_says_what(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = [changed(each, machine="other") for each in times(cpp=1.5)]
    Journal(RUNS / "bench-1.jsonl").append([*times(cpp=(1.5, 0.5, 0.5)), *PASSED, *elsewhere])
    done = CliRunner().invoke(cli.app, ["choose", "square", "--machine", "vm"])
    assert done.output == "square cpu float32: eager, from 100 elements on cpp\n"
    assert choice.steps("square", "cpu", "float32") == ((0, "eager"), (100, "cpp"))


def test_without_steps_nothing_is_told():
    assert choice.told(()) == "n/a"


def test_times_of_another_number_of_threads_do_not_count():
    alone = times(cpp=0.5)
    together = [
        changed(record, workload=record.workload, threads=2, date="2026-11-21T10:00:00+00:00")
        for record in times(native=0.5)
    ]
    found = results.frame([*alone, *together, *PASSED])
    of = {count: choosing.choose("square", found, count)["devices"]["cpu"]["dtypes"] for count in (1, 2)}
    assert of == {1: {"float32": [[0, "cpp"]]}, 2: {"float32": [[0, "native"]]}}
