"""`autofn trace --commit`: another commit's build is what is traced, by what records here."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from support import PYTHON, commit, git, python, scratch_repository

pytestmark = pytest.mark.slow

OTHER = PYTHON.replace("return x * x", "return (x * x).neg().neg()")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Two commits; in the second one the forward negates twice."""
    folder = scratch_repository(tmp_path_factory.mktemp("scratch") / "repository", "ant")
    (folder / "autofn" / "functions" / "ant" / "python.py").write_text(OTHER)
    commit(folder, "changed")
    return folder


def trace(repository, *words, status=0):
    done = python("-m", "autofn", "trace", *words, cwd=repository, timeout=300, AUTOFN_NO_EXTENSION="1")
    assert done.returncode == status, done.stdout + done.stderr
    return done


def calls(folder, name):
    table = pd.read_csv(folder / "operators.csv")
    return int(table.loc[table["name"] == name, "calls"].sum())


def test_the_commits_build_is_traced_and_compared(repository):
    revision = git(repository, "rev-parse", "HEAD~1")
    words = ("ant", "--variant", "python", "--steps", "1", "--no-stacks")
    done = trace(repository, "--commit", "HEAD~1", *words)
    trace(repository, *words)
    folder = repository / "traces" / revision[:12] / "ant" / "python"
    assert "building HEAD~1" in done.stderr
    assert calls(folder, "aten::neg") == 0
    assert calls(repository / "traces" / "ant" / "python", "aten::neg") == 2
    assert json.loads((folder / "summary.json").read_text())["commit"] == revision
    assert f"autofn trace --compare traces/{revision[:12]} traces" in done.stdout

    compared = trace(repository, "ant", "--compare", f"traces/{revision[:12]}", "traces")
    (line,) = [line.split() for line in compared.stdout.splitlines() if "aten::neg" in line]
    assert (line[0], line[1], line[-8:]) == (
        "forward",
        "aten::neg",
        ["added", "0", "->", "2", "none", "->", *line[-2:]],
    )


def test_what_the_commit_lacks_is_said(repository):
    done = trace(repository, "bee", "--commit", "HEAD~1", status=2)
    assert "there is no Function 'bee'" in done.stderr
    assert "HEAD~1 (" in done.stderr
    done = trace(repository, "--commit", "nowhere", status=2)
    assert "there is no revision 'nowhere' here" in done.stderr


def test_functions_of_somebodys_own_are_refused_with_the_way_out(repository):
    (repository / "mine.py").write_text("from autofn.functions.ant import SPEC\n")
    done = trace(repository, "--spec", "mine.py", "--commit", "HEAD~1", status=2)
    assert "git worktree add ../old HEAD~1" in done.stderr
