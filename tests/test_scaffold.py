"""`autofn new`: the Function that it writes passes check at once, in somebody's own repository and in a checkout."""

from __future__ import annotations

import json
import re

import pytest
from support import PACKAGE, ROOT, copy_working_tree, python

from autofn import scaffold

FILES = {"__init__.py", "reference.py", "python.py", "fused.py", "cpp.py", "kernel.cpp"}


def autofn(folder, *words, status=0, package=ROOT, **changes):
    done = python("-m", "autofn", *words, cwd=folder, package=package, **changes)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_a_repository_gets_a_folder_a_test_and_the_setting(tmp_path):
    _, err = autofn(tmp_path, "new", "twice_as_odd")
    folder = tmp_path / "functions" / "twice_as_odd"
    assert {path.name for path in folder.iterdir()} == FILES | {"test_twice_as_odd.py"}
    assert (tmp_path / "pyproject.toml").read_text() == '[tool.autofn]\nspecs = ["functions"]\n'
    assert "next:\nautofn check twice_as_odd" in err
    assert "class TwiceAsOdd(" in (folder / "python.py").read_text()
    _, err = autofn(tmp_path, "new", "another")
    assert (tmp_path / "functions" / "another").is_dir()
    assert "add to" not in err


@pytest.mark.slow
def test_it_passes_check_at_once_with_its_sources_compiled(tmp_path):
    autofn(tmp_path, "new", "twice_as_odd")
    words = ("check", "twice_as_odd", "--json", "found.json", "-v", "python", "-v", "cpp", "--warnings-as-errors")
    autofn(tmp_path, *words, AUTOFN_CACHE=str(tmp_path / "cache"))
    found = json.loads((tmp_path / "found.json").read_text())
    for variant in ("python", "cpp"):
        passed = {each["metric"] for each in found if each["variant"] == variant and each["status"] == "ok"}
        assert {"value", "gradient", "promises", "dtype-crash"} <= passed
    # Another process builds nothing.
    _, err = autofn(tmp_path, "check", "-v", "cpp", "--select", "value", AUTOFN_CACHE=str(tmp_path / "cache"))
    assert "compiling" not in err
    done = python("-m", "pytest", "-q", "functions", cwd=tmp_path, package=ROOT)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_a_checkout_gets_a_folder_among_its_own_and_no_other_file(tmp_path):
    copy_working_tree(tmp_path)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    out, err = autofn(tmp_path, "new", "twice_as_odd", package=tmp_path)
    made = {path for path in tmp_path.rglob("*") if path.is_file() and "__pycache__" not in path.parts} - before
    assert made == {tmp_path / "autofn" / "functions" / "twice_as_odd" / file for file in FILES}
    assert len(out.splitlines()) == len(FILES)
    assert "make build/.extension" in err
    autofn(
        tmp_path, "check", "twice_as_odd", "-v", "python", "--dtype", "float64", "--select", "value", package=tmp_path
    )
    for tool in ("check", "format"):
        words = ("-m", "ruff", tool, *(["--check"] if tool == "format" else []), "autofn/functions/twice_as_odd")
        done = python(*words, cwd=tmp_path, package=tmp_path)
        assert done.returncode == 0, done.stdout


MISUSE = {
    "Swish": "a name is lower case, digits and underscores, got 'Swish'",
    "../swish": "a name is lower case, digits and underscores, got '../swish'",
    "lambda": "the name 'lambda' is taken",
    "check": "the name 'check' is taken",
    "exp": "there is a Function 'exp' already, in ",
}


@pytest.mark.parametrize("name", MISUSE)
def test_a_name_that_no_function_can_have_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(ValueError, match=re.escape(MISUSE[name])):
        scaffold.new(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path):
    there = tmp_path / "functions" / "swish" / "kernel.cpp"
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    with pytest.raises(ValueError, match=r"kernel\.cpp: there already, and nothing is written over"):
        scaffold.new("swish", tmp_path)
    assert there.read_text() == "mine"
    assert [path.name for path in there.parent.iterdir()] == ["kernel.cpp"]


def test_a_setting_that_has_to_be_added_by_hand_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    written = scaffold.new("swish", tmp_path, tmp_path / "own")
    assert "add to" in written.left[0]
    assert 'specs = ["own"]' in written.left[0]
    assert (tmp_path / "pyproject.toml").read_text() == "[project]\nname = 'mine'\n"


def test_a_folder_that_could_not_be_imported_is_refused(tmp_path):
    with pytest.raises(ValueError, match="must have a Python name"):
        scaffold.new("swish", tmp_path, tmp_path / "my-functions")


def test_every_template_is_in_the_package_data():
    names = {
        path.relative_to(PACKAGE / "templates" / "function").name
        for path in (PACKAGE / "templates" / "function").iterdir()
    }
    assert names == {f"{file}.jinja" for file in (*scaffold.FUNCTION, "test.py")}
    assert '"*.jinja"' in (ROOT / "pyproject.toml").read_text()
