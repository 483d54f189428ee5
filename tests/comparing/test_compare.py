"""`autofn compare` over real commits of a scratch repository, whose changes are planted."""

from __future__ import annotations

import json

import pytest
from support import PYTHON, commit, git, python, scratch_repository

pytestmark = [pytest.mark.slow, pytest.mark.measured]

SLOW = PYTHON.replace("        return x * x\n", "        for _ in range(8):\n            x * x\n        return x * x\n")
HUNGRY = PYTHON.replace("ctx.save_for_backward(x)", "ctx.save_for_backward(x, x + 1)").replace("(x,) =", "x, _ =")
FAILING = PYTHON.replace("return x * x", "raise ArithmeticError('planted')")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Two commits: the forward of one Function became slower, another saves more, a third fails, one is as it was."""
    folder = scratch_repository(tmp_path_factory.mktemp("scratch") / "repository", "ant", "bee", "cat", "dog")
    for name, text in {"ant": SLOW, "bee": HUNGRY, "cat": FAILING}.items():
        (folder / "autofn" / "functions" / name / "python.py").write_text(text)
    commit(folder, "changed")
    return folder


def compare(repository, *words, status):
    words = ("-m", "autofn", "compare", *words, "-w", "small", "--phase", "forward", "--budget", "8")
    done = python(*words, cwd=repository, timeout=400, AUTOFN_NO_EXTENSION="1")
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_what_was_planted_is_found_and_nothing_else(repository):
    file = repository / "found.json"
    out = compare(repository, "HEAD~1", "HEAD", "--json", file, status=1)
    found = json.loads(file.read_text())
    verdicts = {(c["function"], c["metric"]): c["verdict"] for c in found["changes"]}
    assert verdicts["ant", "time_s"] == "slower"
    assert verdicts["bee", "saved_new_bytes"] == "more"
    assert verdicts["cat", "time_s"] == "broken"
    assert not any(c["function"] == "dog" for c in found["changes"]), "its code is the same"
    assert verdicts["ant", "saved_bytes"] == "same"
    assert found["base"]["commit"] == git(repository, "rev-parse", "HEAD~1")
    assert "ArithmeticError: planted" in out
    assert not list((repository / ".autofn" / "compare").glob("*")), "a comparison that has ended is not gone on with"


def test_the_same_source_under_two_names_is_the_same(repository):
    out = compare(repository, "HEAD", ".", "dog", "--format", "markdown", status=0)
    assert "**" in out
    assert "slower" not in out.split("**")[1]


def test_where_no_code_differs_nothing_is_measured(repository):
    out = compare(repository, "HEAD", ".", status=0)
    assert "nothing that a Function runs differs" in out
