"""What a person names becomes a build, or an error that says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from support import commit, git

from autofn.comparing.builds import BUILD_WHEEL, BUILDS, BuildError, asv_wheel, side
from autofn.repository import resolve

SETUP = "from setuptools import setup\nsetup(name='made', version='1', packages=['made'])\n"


@pytest.fixture
def repository(tmp_path):
    """Two commits of a package that builds in a second."""
    folder = tmp_path / "repository"
    (folder / "made").mkdir(parents=True)
    (folder / "autofn" / "functions").mkdir(parents=True)
    (folder / "autofn" / "functions" / "none.txt").write_text("as a checkout of the package has such a folder\n")
    (folder / "setup.py").write_text(SETUP)
    (folder / ".gitignore").write_text(".autofn/\n")
    (folder / "made" / "__init__.py").write_text("COMMIT = 1\n")
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "first")
    (folder / "made" / "__init__.py").write_text("COMMIT = 2\n")
    commit(folder, "second")
    return folder


def built(found):
    return (found.folder / "made" / "__init__.py").read_text()


def test_a_revision_and_the_working_tree_are_built_from_their_own_sources(repository):
    (repository / "made" / "__init__.py").write_text("COMMIT = 'none'\n")
    (repository / "made" / "further.py").write_text("")
    assert built(side("HEAD~1", repository)) == "COMMIT = 1\n"
    assert built(side("main", repository)) == "COMMIT = 2\n"
    tree = side(".", repository)
    assert built(tree) == "COMMIT = 'none'\n"
    assert (tree.folder / "made" / "further.py").exists(), "a file that git does not know yet is part of it"
    assert tree.commit == git(repository, "rev-parse", "HEAD") + "+dirty"
    assert tree.title.startswith("the working tree on ")


def test_its_packages_come_before_all_others(repository):
    variables = side("HEAD", repository).build.variables()
    assert Path(variables["PYTHONPATH"].split(os.pathsep)[0]).name.startswith(git(repository, "rev-parse", "HEAD")[:12])


def test_the_folder_inside_a_repository_does_not_matter(repository):
    found = side("HEAD", repository / "made")
    assert found.folder.parent == repository.resolve() / BUILDS


def test_a_build_that_is_there_is_not_made_again(repository):
    said = []
    for _ in range(2):
        side("HEAD", repository, said=said.append)
    assert said == ["building HEAD"]


def test_what_asv_has_built_is_not_built_again(repository):
    revision = git(repository, "rev-parse", "HEAD")
    kept = repository / ".asv" / "env" / "a1" / "asv-build-cache" / revision
    kept.mkdir(parents=True)
    wheel = [sys.executable, "-c", BUILD_WHEEL, str(kept)]
    (repository / "made" / "__init__.py").write_text("COMMIT = 'as asv built it'\n")
    subprocess.run(wheel, cwd=repository, check=True, capture_output=True)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    made = {"python": python, "requirements": {"torch": metadata.version("torch").split("+")[0]}}
    (kept.parents[1] / "asv-env-info.json").write_text(json.dumps(made))
    assert asv_wheel(repository, revision) is None, "it is not whole yet"
    kept.with_name(f"{revision}.timestamp").touch()
    assert built(side("HEAD", repository)) == "COMMIT = 'as asv built it'\n"
    (kept.parents[1] / "asv-env-info.json").write_text(json.dumps({**made, "python": "2.7"}))
    assert asv_wheel(repository, revision) is None


def test_a_failed_build_says_why_and_leaves_nothing_that_looks_whole(repository):
    (repository / "setup.py").write_text("raise SystemExit('no compiler for this')\n")
    broken = commit(repository, "broken")
    for _ in range(2):
        with pytest.raises(BuildError, match=r"(?s)building failed, .*\.log has all of it:.*no compiler for this"):
            side("HEAD", repository)
    assert [path.suffix for path in (repository / BUILDS).glob(f"{broken[:12]}*")] == [".log"]
    assert not list((repository / BUILDS).glob("build-*"))


def test_of_somebodys_own_repository_a_copy_is_what_specs_and_modules_are_looked_for_in(repository, monkeypatch):
    git(repository, "rm", "-r", "-q", "autofn")
    (repository / "own").mkdir()
    (repository / "own" / "specs.py").write_text("")
    (repository / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["own"]\n')
    commit(repository, "their own")
    (repository / "made" / "__init__.py").write_text("COMMIT = 'none'\n")
    monkeypatch.setenv("AUTOFN_SPECS", str(repository / "own" / "specs.py"))
    found = side("HEAD", repository)
    assert built(found) == "COMMIT = 2\n"
    assert found.own == "own"
    variables = found.build.variables()
    assert variables["AUTOFN_ROOT"] == variables["PYTHONPATH"].split(os.pathsep)[0] == str(found.folder)
    assert variables["AUTOFN_SPECS"] == str(found.folder / "own" / "specs.py")


def test_a_python_is_taken_as_it_is(repository):
    found = side(sys.executable, repository)
    assert (found.build.python, found.folder, found.commit, found.title) == (sys.executable, None, "", sys.executable)


def test_no_such_revision_is_said(repository):
    with pytest.raises(LookupError, match="no revision 'nowhere' here; git log shows what there is"):
        side("nowhere", repository)


def test_an_option_is_no_revision(repository):
    with pytest.raises(LookupError, match="no revision '--all' here"):
        resolve(repository, "--all")


def test_in_a_shallow_clone_the_way_to_the_rest_is_said(repository, tmp_path):
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    with pytest.raises(LookupError, match=r"no revision 'HEAD~1' here; .*git fetch --unshallow"):
        side("HEAD~1", tmp_path / "shallow")


def test_outside_a_repository_and_without_git_the_way_out_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(LookupError, match="is not in a git repository"):
        side("HEAD", tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LookupError, match="git is not on the PATH"):
        side("HEAD", tmp_path)
