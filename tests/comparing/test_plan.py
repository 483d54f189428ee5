"""Which Functions differ, and in which cases two builds can be compared."""

from __future__ import annotations

import pytest

from autofn.comparing.builds import Side
from autofn.comparing.plan import differing, edited, incomparable, pairs
from autofn.measure.processes import Build

DESCRIBED = {
    "version": "1",
    "dtypes": ["float32", "bfloat16"],
    "workloads": ["tiny", "small"],
    "variants": [["eager", "eager"], ["native", "native"], ["python", "python"], ["cpp_mask", "cpp"]],
}


def described(**changes):
    return {**DESCRIBED, **changes}


def built(folder, files):
    for name, text in files.items():
        path = folder / "autofn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Side("HEAD", "", Build(), folder)


FILES = {
    "functions/ant/python.py": "1", "functions/ant/kernel.cpp": "1", "functions/bee/python.py": "1",
    "csrc/lanes.h": "1", "compiled.py": "1", "cli/bench.py": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"functions/ant/python.py": "2"}, ["ant"]),
        ({"functions/ant/kernel.cpp": "2"}, ["ant"]),
        ({"functions/bee/triton.py": "1"}, ["bee"]),
        ({"csrc/lanes.h": "2"}, ["ant", "bee"]),
        ({"compiled.py": "2"}, ["ant", "bee"]),
        ({"cli/bench.py": "2"}, []),
    ],
)
def test_a_function_differs_where_its_folder_or_what_all_share_does(tmp_path, changed, expected):
    base, head = built(tmp_path / "base", FILES), built(tmp_path / "head", {**FILES, **changed})
    assert differing(base, head, ["ant", "bee"]) == expected


PARTS = {
    "functions/ant/__init__.py": "from .reference import ant\n",
    "functions/ant/reference.py": "from .shapes import rows\n",
    "functions/ant/shapes.py": "1", "functions/ant/python.py": "from . import formula\n",
    "functions/ant/python_mask.py": "from .inputs import check\n", "functions/ant/fused.py": "import math\n",
    "functions/ant/cpp.py": "from .inputs import check\n", "functions/ant/kernel.cpp": "1", "functions/ant/row.h": "1",
    "functions/ant/inputs.py": "from .formula import shape\n", "functions/ant/formula.py": "1",
    "functions/bee/python.py": "1", "csrc/lanes.h": "1", "compiled.py": "1", "cli/bench.py": "1",
}  # fmt: skip
VARIANTS = ["python", "python_mask", "fused", "cpp"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"functions/ant/fused.py": "2"}, ["fused"]),
        ({"functions/ant/fused.py": "this is no Python"}, ["fused"]),
        ({"functions/ant/kernel.cpp": "2"}, ["cpp"]),
        ({"functions/ant/row.h": "2"}, ["cpp"]),
        ({"functions/ant/kernel.cu": "1"}, ["cpp"]),
        ({"csrc/lanes.h": "2"}, ["cpp"]),
        ({"functions/ant/inputs.py": "from .formula import shape, dtype\n"}, ["python_mask", "cpp"]),
        ({"functions/ant/formula.py": "2"}, ["python", "python_mask", "cpp"]),
        ({"functions/ant/__init__.py": "2"}, VARIANTS),
        ({"functions/ant/shapes.py": "2"}, VARIANTS),
        ({"compile_flags.py": "1"}, VARIANTS),
        ({"compiled.py": "2"}, VARIANTS),
        ({"functions/bee/python.py": "2", "cli/bench.py": "2"}, []),
    ],
)
def test_a_variant_is_edited_where_a_file_that_it_is_made_of_is(tmp_path, changed, expected):
    base, head = built(tmp_path / "base", PARTS), built(tmp_path / "head", {**PARTS, **changed})
    assert edited(base.folder, head.folder, "ant", VARIANTS) == expected


def test_of_a_python_nothing_is_known_so_all_may_differ(tmp_path):
    python = Side("/usr/bin/python", "", Build(), None)
    assert differing(built(tmp_path, FILES), python, ["ant", "bee"]) == ["ant", "bee"]


def test_a_pair_has_what_both_sides_have_and_says_what_one_lacks():
    base = {"ant": described(variants=[["eager", "eager"], ["python", "python"]], workloads=["small"])}
    (found,) = pairs(base, {"ant": described()}, ["ant"])
    assert str(found.group) == "ant small float32 cpu"
    assert [arm.variant for arm in found.arms] == ["python"], "what is PyTorch's own is left out by default"
    assert found.missing == (("cpp_mask", "the base has no variant cpp_mask"),)


def test_names_choose_and_unknown_ones_are_refused():
    both = {"ant": described()}
    found = pairs(both, both, ["ant"], variants=["native"], workloads=["tiny"], dtypes=["bfloat16"])
    assert [(str(pair.group), [arm.variant for arm in pair.arms]) for pair in found] == [
        ("ant tiny bfloat16 cpu", ["native"])
    ]
    for what in ("variants", "workloads", "dtypes"):
        with pytest.raises(LookupError, match=f"there is no {what[:-1]} 'nothing'"):
            pairs(both, both, ["ant"], **{what: ["nothing"]})


def test_of_no_functions_there_are_no_pairs_whatever_is_asked_for():
    assert pairs({}, {}, [], workloads=["small"]) == []


def test_why_a_function_cannot_be_compared():
    base = {"ant": {}, "bee": described(), "cat": described(version="1"), "dog": described()}
    head = {"ant": described(), "bee": {}, "cat": described(version="2"), "dog": described()}
    assert incomparable(base, head, [*base]) == {
        "ant": "the base has no Function ant",
        "bee": "the head has no Function bee",
        "cat": "its inputs changed: version 1 at the base, 2 at the head",
    }
    assert [str(pair.group) for pair in pairs(base, head, ["cat"])] == []


def test_a_function_of_neither_side_is_an_error():
    with pytest.raises(LookupError, match=r"there is no Function 'cow'; .*cat"):
        incomparable({"cow": {}, "cat": described()}, {"cow": {}, "cat": described()}, ["cow", "cat"])
