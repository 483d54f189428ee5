"""`autofn dev`: one edited Function, right or wrong, faster or slower than the last commit."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from support import PYTHON, commit, git, python, scratch_repository

from autofn.comparing.builds import BuildError, Side
from autofn.comparing.develop import OF_COMPILED, Loop, changed_since, rebuild
from autofn.measure.processes import Build

SLOW = PYTHON.replace("        return x * x\n", "        for _ in range(8):\n            x * x\n        return x * x\n")
WRONG = PYTHON.replace("2 * x * grad_output", "3 * x * grad_output")
FUSED = PYTHON.replace("2 * x * grad_output", "gradient(x, grad_output)").replace(
    "import torch\n",
    "import torch\n\nfrom autofn.compiled import graph\n\n\n@graph\ndef gradient(x, grad):\n    return 2 * x * grad\n",
)
FILES = {
    "functions/ant/python.py": True,
    "functions/ant/kernel.cpp": True,
    "functions/bee/python.py": False,
    "csrc/lanes.h": True,
    "compiled.py": True,
}


@pytest.fixture
def checkout(tmp_path):
    """Files of a checkout, all saved ten seconds ago."""
    (tmp_path / "setup.py").write_text("raise SystemExit('error: the compiler was called')\n")
    for name in FILES:
        path = tmp_path / "autofn" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for path in tmp_path.rglob("*"):
        os.utime(path, (time.time() - 10,) * 2)
    return tmp_path


@pytest.mark.parametrize(("saved", "seen"), FILES.items())
def test_a_save_of_the_function_or_of_what_all_share_is_seen(checkout, saved, seen):
    since = time.time() - 5
    assert not changed_since(checkout, "ant", since)
    (checkout / "autofn" / saved).write_text("saved")
    assert changed_since(checkout, "ant", since) == seen


def test_nothing_is_compiled_that_is_older_than_the_extension(checkout):
    (checkout / "autofn" / "_C.so").write_text("")
    rebuild(checkout)
    (checkout / "autofn" / "functions" / "ant" / "kernel.cpp").touch()
    os.utime(checkout / "autofn" / "_C.so", (time.time() - 5,) * 2)
    with pytest.raises(BuildError, match="error: the compiler was called"):
        rebuild(checkout)


def test_outside_a_checkout_the_way_out_is_said(tmp_path):
    with pytest.raises(BuildError, match=r"has no setup.py: run this in a checkout"):
        rebuild(tmp_path)


@pytest.fixture
def loop(tmp_path, monkeypatch):
    """A loop whose base is a copy of its checkout; `loop.checks` are the options of the checks that it ran."""
    folder = tmp_path / "autofn" / "functions" / "ant"
    folder.mkdir(parents=True)
    for name in ("__init__", "reference", "python", "fused", "native", "cpp"):
        (folder / f"{name}.py").write_text("")
    shutil.copytree(tmp_path / "autofn", tmp_path / "base" / "autofn")
    loop = Loop("ant", Side("HEAD", "", Build(), tmp_path / "base"), tmp_path, "small", None, None)
    loop.folder, loop.checks = folder, []
    monkeypatch.setattr(loop, "_run_check", lambda *options: loop.checks.append(options) or [])
    return loop


@pytest.mark.parametrize(
    ("edited", "differing", "untouched", "checks"),
    [
        ([], None, [], [()]),
        (["__init__"], None, [], [()]),
        (["cpp"], ["cpp"], ["fused", "native", "python"], [("--variant", "cpp")]),
        (["native"], ["native"], ["cpp", "fused", "python"], [("--variant", "native")]),
        (["triton"], ["triton"], ["cpp", "fused", "native", "python"], [("--variant", "triton")]),
        (["fused"], ["fused"], ["cpp", "native", "python"], [("--variant", "fused", *OF_COMPILED)]),
        (
            ["cpp", "fused"], ["cpp", "fused"], ["native", "python"],
            [("--variant", "cpp"), ("--variant", "fused", *OF_COMPILED)],
        ),
    ],
)  # fmt: skip
def test_a_turn_is_about_what_was_edited(loop, edited, differing, untouched, checks):
    for name in edited:
        (loop.folder / f"{name}.py").write_text("edited")
    assert loop._variants() == (differing, untouched)
    loop._check(differing)
    assert loop.checks == checks


def test_a_variant_that_was_deleted_is_compared_and_not_checked(loop):
    (loop.folder / "python.py").unlink()
    assert loop._variants() == (["python"], ["cpp", "fused", "native"])
    assert loop._check(["python"]) == loop.checks == []


def test_against_a_python_all_are_compared(loop):
    loop.base = Side("/usr/bin/python", "", Build(), None)
    assert loop._variants() == (None, [])


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Of two Functions, the second with a variant that compiles."""
    folder = scratch_repository(tmp_path_factory.mktemp("scratch") / "repository", "ant", "bee")
    (folder / "autofn" / "functions" / "bee" / "fused.py").write_text(FUSED)
    commit(folder, "a variant that compiles")
    return folder


def dev(repository, text, *words, status, file="ant/python.py"):
    (repository / "autofn" / "functions" / file).write_text(text)
    done = python("-m", "autofn", "dev", *words, cwd=repository, timeout=400, AUTOFN_NO_EXTENSION="1")
    assert done.returncode in status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.measured
def test_a_turn_says_right_or_wrong_and_faster_or_slower_than_the_last_commit(repository):
    out = dev(repository, SLOW, "ant", status={1})
    assert "right" in out
    assert "slower +" in out
    assert git(repository, "rev-parse", "HEAD")[:12] in out
    out = dev(repository, WRONG, "ant", "-w", "tiny", status={1})
    assert "WRONG" in out
    assert "error gradient: ant (python) tiny" in out


@pytest.mark.slow
@pytest.mark.measured
def test_what_compiles_is_checked_where_it_was_edited(repository):
    # On a busy machine one look may take the same code for slower.
    out = dev(repository, FUSED + "# A comment.\n", "bee", status={0, 1}, file="bee/fused.py")
    assert "right" in out
    assert " 0 checks passed" not in out
    assert out.count("code unchanged") == 2, "python in both phases"
    out = dev(repository, FUSED.replace("2 * x * grad", "3 * x * grad"), "bee", status={1}, file="bee/fused.py")
    assert "WRONG" in out
    assert "error gradient: bee (fused)" in out


@pytest.mark.slow
def test_what_does_not_exist_is_misuse(repository):
    assert "there is no Function 'cow'" in dev(repository, PYTHON, "cow", status={2})
    assert "no revision 'nowhere'" in dev(repository, PYTHON, "ant", "--base", "nowhere", status={2})
