"""Two runs are compared operator by operator: by phase, name and shapes, whatever the order of their lists."""

from __future__ import annotations

import json

import pytest
from traces import event
from typer import Typer
from typer.testing import CliRunner

from autofn.cli.trace import trace_command
from autofn.tracing import TraceSummary, files
from autofn.tracing.difference import compare_traces

app = Typer()
app.command()(trace_command)


def operator(name, start, dur, *dims):
    return event("cpu_op", name, start, dur, **{"Input Dims": list(dims)})


def write(out, variant, *steps, function="f"):
    """A run with one forward a step of 100 us, that holds what `steps` say."""
    events = []
    for number, step in enumerate(steps):
        events.append(event("user_annotation", f"{function}/{variant}/forward", 100 * number, 100))
        events += [{**found, "ts": found["ts"] + 100 * number} for found in step]
    exported = out / "exported.json"
    exported.write_text(json.dumps({"traceEvents": events}))
    files.write(TraceSummary(function, variant, "small", "float32", "cpu", steps=len(steps)), exported, out)


@pytest.fixture
def two(tmp_path):
    """Runs of `f`. In the second aten::mul of a row is slower, that of a matrix faster, the others swapped."""
    one = [operator("aten::mul", 1, 5, [3]), operator("aten::mul", 10, 20, [3, 3]), operator("aten::gt", 40, 3, [3]),
           operator("aten::lt", 50, 3, [3]), operator("graph_0_cpp_fused_exp_0", 60, 4)]  # fmt: skip
    other = [operator("aten::mul", 1, 8, [3]), operator("aten::mul", 10, 9, [3, 3]), operator("aten::lt", 40, 3, [3]),
             operator("aten::gt", 50, 4, [3]), operator("graph_7_cpp_fused_exp_0", 60, 4),
             operator("aten::neg", 70, 6, [3])]  # fmt: skip
    write(tmp_path, "one", one, [{**found, "dur": found["dur"] + 1} for found in one])
    write(tmp_path, "other", other, other)
    return tmp_path


def found(pairs):
    return [(each.name, each.input_shapes, each.what) for pair in pairs for each in pair.differences]


def test_operators_are_paired_by_name_and_shapes(two):
    pairs = compare_traces("one", "other", ["f"], two)
    # aten::gt took 3 and 4 us, and then 4 and 4: no step of one side is beyond all of the other.
    assert found(pairs) == [
        ("aten::mul", "[[3, 3]]", "faster"),
        ("aten::neg", "[[3]]", "added"),
        ("the forward itself", "[]", "slower"),
        ("aten::mul", "[[3]]", "slower"),
    ]
    (*_, slower) = pairs[0].differences
    assert (slower.before.time_s, slower.after.time_s) == (pytest.approx(5.5e-6), pytest.approx(8e-6))
    assert (slower.before.high_s, slower.after.low_s) == (pytest.approx(6e-6), pytest.approx(8e-6))


def test_fewer_calls_are_removed_ones_and_nothing_is_its_own_difference(two):
    (added,) = [each for each in found(compare_traces("one", "other", ["f"], two)) if each[2] == "added"]
    (removed,) = [each for each in found(compare_traces("other", "one", ["f"], two)) if each[2] == "removed"]
    assert added[:2] == removed[:2]
    assert found(compare_traces("one", "one", ["f"], two)) == []


def test_two_folders_are_compared_in_the_variants_that_both_have(two, tmp_path):
    elsewhere = two / "1a2b3c4d5e6f"
    elsewhere.mkdir()
    write(elsewhere, "other", [operator("aten::neg", 70, 6, [3])])
    for name in (str(elsewhere), "1a2b3c4d5e6f"):
        (pair,) = compare_traces(name, str(two), ["f"], two)
        assert (pair.before, pair.after) == (str(elsewhere / "f" / "other"), str(two / "f" / "other"))
    (pair,) = compare_traces("other", "1a2b3c4d5e6f", ["f"], two)
    assert pair.after == str(elsewhere / "f" / "other")
    with pytest.raises(LookupError, match="must have a variant in common; one has one, the other other"):
        compare_traces("one", "1a2b3c4d5e6f", ["f"], two)


def test_what_was_not_recorded_is_an_error_with_the_way_out(two):
    with pytest.raises(LookupError, match=r"no run of f, .* called 'othre'; did you mean other"):
        compare_traces("one", "othre", ["f"], two)
    with pytest.raises(LookupError, match=r"no traces of g in .*; autofn trace g records them"):
        compare_traces("one", "other", ["g"], two)
    (two / "f" / "one" / "operators.csv").write_text("nothing\n")
    with (
        pytest.warns(UserWarning, match="record it again"),
        pytest.raises(LookupError, match="cannot be read; record it again"),
    ):
        compare_traces("one", "other", ["f"], two)


def test_the_command_prints_them_and_records_nothing(two):
    before = sorted(two.rglob("*"))
    result = CliRunner().invoke(app, ["f", "--compare", "one", "other", "--out", str(two)], env={"COLUMNS": "150"})
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "forward aten::mul [[3]] slower 1 -> 1 5.50 µs -> 8.00 µs" in lines
    assert "forward aten::neg [[3]] added 0 -> 1 none -> 6.00 µs" in lines
    assert "profiled" in result.stdout
    assert sorted(two.rglob("*")) == before
