"""`autofn dev`: one edited Function, right or wrong, faster or slower than the last commit."""

from __future__ import annotations

import os
import time

import pytest
from support import PYTHON, git, python, scratch_repository

from autofn.comparing.builds import BuildError
from autofn.comparing.develop import changed_since, rebuild

SLOW = PYTHON.replace("        return x * x\n", "        for _ in range(8):\n            x * x\n        return x * x\n")
WRONG = PYTHON.replace("2 * x * grad_output", "3 * x * grad_output")
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


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return scratch_repository(tmp_path_factory.mktemp("scratch") / "repository", "ant")


def dev(repository, text, *words, status):
    (repository / "autofn" / "functions" / "ant" / "python.py").write_text(text)
    done = python("-m", "autofn", "dev", *words, cwd=repository, timeout=400, AUTOFN_NO_EXTENSION="1")
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.measured
def test_a_turn_says_right_or_wrong_and_faster_or_slower_than_the_last_commit(repository):
    out = dev(repository, SLOW, "ant", status=1)
    assert "right" in out
    assert "slower +" in out
    assert git(repository, "rev-parse", "HEAD")[:12] in out
    out = dev(repository, WRONG, "ant", "-w", "tiny", status=1)
    assert "WRONG" in out
    assert "error gradient: ant (python) tiny" in out


@pytest.mark.slow
def test_what_does_not_exist_is_misuse(repository):
    assert "there is no Function 'cow'" in dev(repository, PYTHON, "cow", status=2)
    assert "no revision 'nowhere'" in dev(repository, PYTHON, "ant", "--base", "nowhere", status=2)
