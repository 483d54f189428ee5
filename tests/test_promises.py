"""Promises in words: what is read, what is refused and why, and which results keep them."""

from __future__ import annotations

import random
import sys

import pytest
import torch
from support import DECLARATION, PYTHON, make_spec, plant, unplant, write_function

import autofn
from autofn import cli, kept, promises, registry, results
from autofn.kept import BROKEN, CANNOT_TELL, KEPT
from autofn.records import Key, Record

SIZES = {"rows": 10, "cols": 7, "dim": None}


def limit(expression, itemsize=2):
    return promises.parse(f"saved_bytes <= {expression}").limit(SIZES, itemsize)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("4 * rows", 40),
        ("rows * max(4, itemsize)", 40),
        ("ceil(rows * cols / 32) * 4", 12),
        ("(rows + cols) // 4 - 1", 3),
        ("-rows + 2e1", 10),
        ("min(rows, cols, 9)", 7),
    ],
)
def test_a_bound_is_arithmetic_over_the_sizes(expression, value):
    assert limit(expression) == value


REFUSED = {
    "saved_byte <= 4": "there is no quantity 'saved_byte'; did you mean saved_bytes",
    "saved_bytes >= 4": "saved_bytes is promised with <=, got >=",
    "speedup <= 2": "speedup is promised with >=, got <=",
    "saved_bytes": "must be like `saved_new_bytes <= 4 \\* rows`",
    "saved_bytes <= ": "'' is no expression",
    "saved_bytes <= 4 rows": "'4 rows' is no expression; it is made of numbers, sizes",
    "saved_bytes <= 2 ** rows": "'2 \\*\\* rows' cannot stand in the expression",
    "saved_bytes <= rows if cols else 0": "cannot stand in the expression",
    "saved_bytes <= __import__('os').getpid()": "cannot stand in the expression",
    "saved_bytes <= rows.real": "'rows.real' cannot stand in the expression",
    "saved_bytes <= open(rows)": "'open\\(rows\\)' cannot stand in the expression",
    "saved_bytes <= max(*rows)": "'\\*rows' cannot stand in the expression",
    "saved_bytes <= 'a' * 9": "''?\"?'?a'?\"?'? cannot stand",
    "peak_bytes <= 4 in bakward": "peak_bytes has no phase 'bakward'; did you mean backward",
    "saved_bytes <= 4 in forward": "saved_bytes has no phase 'forward'",
    "speedup >= 2 at small at large": "says 'at' twice; separate names by commas",
    "speedup >= 2 at small and large": "after 'at' stand names separated by commas, got 'small and large'",
    "speedup >= 2 on gpu": "there is no device 'gpu'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_promise_is_refused_with_the_part_that_is_wrong(text):
    with pytest.raises(ValueError, match=REFUSED[text]) as told:
        promises.parse(text)
    assert str(told.value).startswith(f"the promise {text!r}: ")


IN_A_SPEC = {
    "saved_bytes <= 4 * m": "there is no size 'm'; there are n, itemsize",
    "saved_bytes <= n / 0": "division by zero",
    "saved_bytes <= max(n)": "'max\\(n\\)': .* not iterable",
    "saved_bytes <= 0 at tinny": "there is no workload 'tinny'; did you mean tiny",
    "error <= 1 in float16": "it declares no dtype 'float16'",
}


@pytest.mark.parametrize("text", IN_A_SPEC)
def test_a_spec_refuses_a_promise_that_does_not_fit_it_and_names_itself(text):
    with pytest.raises(ValueError, match=rf"^square: the promise .*{IN_A_SPEC[text]}"):
        make_spec(promises=(text,))


def test_one_text_is_not_taken_for_many():
    with pytest.raises(ValueError, match=r"square: promises must be several texts, got one: write promises=\('error"):
        make_spec(promises="error <= 1")


def test_a_size_that_is_no_number_is_an_error_only_where_it_is_named():
    assert limit("rows") == 10
    with pytest.raises(ValueError, match="the size 'dim' is None here, which is no number"):
        limit("dim")


def case(variant="python", workload="tiny", dtype="float32", device="cpu"):
    return Key("square", variant, workload, dtype, device)


@pytest.mark.parametrize(
    ("clause", "key", "concerned"),
    [
        ("", case(), True),
        ("", case("cpp_mask"), True),
        ("", case("eager"), False),
        ("", case("compile"), False),
        ("", case("native"), False),
        (" for native, cpp", case("native"), True),
        (" for native, cpp", case("cpp_mask"), False),
        (" at large", case(), False),
        (" at tiny, large", case(), True),
        (" in bfloat16", case(), False),
        (" in float32, bfloat16", case(), True),
        (" on cuda", case(), False),
    ],
)
def test_clauses_say_which_cases_a_promise_is_about(clause, key, concerned):
    assert promises.parse(f"saved_bytes <= 1{clause}").concerns(key) == concerned


def test_a_speedup_is_one_of_the_training_step_and_a_peak_one_of_both_passes_unless_a_phase_is_named():
    assert promises.parse("speedup >= 2").phases == ("forward_backward",)
    assert promises.parse("speedup >= 2 in backward, float32").phases == ("backward",)
    assert promises.parse("peak_bytes <= 2").phases == ("forward", "backward")


# Results


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """`planted(promise, ...)` makes a square that promises it, in a working folder of its own."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.MonkeyPatch.context() as patch:

        def make(*texts, **variants):
            declaration = DECLARATION.replace('    version="1",', f'    version="1",\n    promises={texts!r},')
            write_function(tmp_path / "functions", "ant", declaration, **variants)
            plant(patch, tmp_path / "functions")

        yield make
    unplant()


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["autofn", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code or 0


COPYING = PYTHON.replace("save_for_backward(x)", "save_for_backward(x.clone())")
CHECK = ("check", "ant", "-v", "python", "--select", "promises")
BENCH = ("bench", "ant", "-v", "python", "--quick", "--budget", "0.01", "-w", "tiny")


@pytest.mark.parametrize(
    ("text", "source", "status"),
    [
        ("saved_new_bytes <= 0", PYTHON, 0),
        ("saved_new_bytes <= 0", COPYING, 1),
        ("saved_new_bytes <= n * itemsize", COPYING, 0),
        ("saved_bytes <= n * itemsize - 1 at tiny", PYTHON, 1),
        ("peak_bytes <= n * itemsize in forward", COPYING, 1),
        ("peak_bytes <= 2 * n * itemsize in forward", COPYING, 0),
        ("error <= 1e-5", PYTHON, 0),
        ("error <= 1e-9 in float32", PYTHON, 1),
        ("error <= 1e-12 in float64", PYTHON, 0),
    ],
)
def test_check_fails_where_a_promise_is_broken(planted, monkeypatch, capsys, text, source, status):
    planted(text, python=source)
    assert run(monkeypatch, *CHECK) == status
    out = " ".join(capsys.readouterr().out.split())
    assert (f"the promise {text!r} is broken" in out) == (status == 1)


def test_check_says_that_it_cannot_judge_a_speedup(planted):
    planted("speedup >= 1.2")
    found = autofn.check(["ant"], variants=["python"], select=["promises"], isolate=False)
    assert {record.status for record in found.records} == {"n/a"}
    assert "`autofn bench` judges them" in found.records[0].reason


@pytest.mark.parametrize(("source", "status"), [(PYTHON, 0), (COPYING, 1)])
def test_bench_fails_where_bytes_are_not_as_promised(planted, monkeypatch, capsys, source, status):
    planted("saved_new_bytes <= n", python=source)
    assert run(monkeypatch, *BENCH) == status
    out = capsys.readouterr().out
    told = "promise 'saved_new_bytes <= n' of ant (python) tiny float32 forward: broken: saved_new_bytes is 24 bytes"
    assert (told in out) == (status == 1)


def test_bench_fails_where_an_error_is_larger_than_promised(planted, monkeypatch, capsys):
    planted("error <= 1e-9 in backward", "error <= 1e-3 in forward")
    assert run(monkeypatch, *BENCH) == 1
    out = capsys.readouterr().out
    assert "promise 'error <= 1e-9 in backward' of ant (python) tiny float32 backward: broken: error is " in out
    assert "in forward" not in out


def test_a_speedup_without_a_verdict_does_not_fail_and_is_said(planted, monkeypatch, capsys):
    planted("speedup >= 1000")
    assert run(monkeypatch, *BENCH) == 0
    assert "cannot tell whether it is kept" in capsys.readouterr().out


def test_a_promise_for_a_variant_that_is_not_there_is_an_error(planted):
    planted("saved_bytes <= 1 for pyton")
    with pytest.raises(ValueError, match=r"ant: the promise .* there is no variant 'pyton'; did you mean python"):
        registry.variants("ant")


def timed(variant, seconds, again=None, spread=0.002):
    """A row of twelve processes with a known spread, and of a second arm of the baseline."""
    draw = random.Random(variant)
    samples = [[seconds * draw.gauss(1, spread) for _ in range(60)] for _ in range(2)]
    detail = {"generations": [5] * 12} | ({} if again is None else {"again": samples[1]})
    return Record(
        "ant", variant, "tiny", "float32", "cpu", phase="forward_backward", metric="time_s", unit="s", value=seconds,
        samples=tuple(samples[0]), detail=detail, processes=12, source="bench", run="r",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "spread", "verdict"),
    [(0.5, 0.002, KEPT), (2.0, 0.002, BROKEN), (1 / 1.5, 0.3, CANNOT_TELL)],
)
def test_the_whole_interval_beyond_the_floor_decides_on_a_speedup(planted, seconds, spread, verdict):
    planted("speedup >= 1.5")
    found = kept.judged(results.frame([timed("eager", 1.0, True, spread), timed("python", seconds, None, spread)]))
    assert [each.verdict for each in found] == [verdict]
    if verdict == CANNOT_TELL:
        assert "it lies between" in found[0].reason


def test_a_promise_of_one_without_a_spec_is_checked_too():
    class Copying(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.clone())
            return x * x

        @staticmethod
        def backward(ctx, grad_output):
            return 2 * ctx.saved_tensors[0] * grad_output

    def inputs():
        return torch.ones(3, dtype=torch.float64, requires_grad=True)

    found = autofn.check(Copying, inputs, promises=["saved_new_bytes <= 2 * itemsize"], select=["promises"])
    assert [(each.observed, each.expected) for each in found.errors] == [("24 bytes", "at most 16")]
    with pytest.raises(ValueError, match="a Function without a Spec has one case; leave out"):
        autofn.check(Copying, inputs, promises=["saved_bytes <= 0 at tiny"])
