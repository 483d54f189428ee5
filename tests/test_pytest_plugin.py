"""`pytest --autofn`: a test a rule of each variant, of files that autofn or pytest is told of; nothing without it."""

from __future__ import annotations

import re

import pytest
from support import PACKAGE, python
from test_origins import declared

ADDED_WRONG = declared("wrong_one").replace("return 3 * grad_output", "return 2 * grad_output")


@pytest.fixture
def project(tmp_path):
    (tmp_path / "mine.py").write_text(declared(variants='{"python": Triple, "triton": "late:triple"}'))
    (tmp_path / "late.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    (tmp_path / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["mine.py"]\n')
    return tmp_path


def run(project, *words):
    """Without the machine's other plug-ins; what ran as (outcome, name), and all that was printed."""
    done = python(
        "-m", "pytest", "-p", "autofn.pytest_plugin", "-p", "no:cacheprovider", "-ra", *(words or ("-v",)),
        cwd=project, package=PACKAGE.parent, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
    )  # fmt: skip
    found = dict(re.findall(r"^(\S+::\S+) (PASSED|FAILED|SKIPPED|ERROR)", done.stdout, re.MULTILINE))
    return done.returncode, found, done.stdout + done.stderr


def test_it_collects_a_test_a_rule_of_each_variant_and_the_other_tests(project):
    status, found, out = run(project, "-v", "--autofn", "-k", "value or promises or gradient-shape or other")
    assert status == 0, out
    assert found["mine.py::triple-python-value"] == "PASSED"
    assert found["mine.py::triple-eager-value"] == "PASSED"
    assert found["mine.py::triple-python-promises"] == "SKIPPED"
    assert found["mine.py::triple-triton-value"] == "SKIPPED"
    assert found["test_other.py::test_other"] == "PASSED"
    assert "nothing is promised of this case" in out
    assert "needs 'nothing_of_this_name', which is not installed" in out
    assert not any("-compile-" in name for name in found), "what compiles is of --autofn-level full"


def test_a_finding_is_a_failure_with_its_words_and_no_traceback(project):
    (project / "mine.py").write_text(ADDED_WRONG)
    status, found, out = run(project, "-v", "--autofn", "-k", "python and (value or gradient)")
    assert status == 1
    assert found["mine.py::wrong_one-python-value"] == "PASSED"
    assert found["mine.py::wrong_one-python-gradient"] == "FAILED"
    assert "gradient: tiny float32: gradient of input 0: differs from that of the reference in float64" in out
    assert "Traceback" not in out
    assert "spec_items.py" not in out
    assert "mine.py:1: " in out


def test_level_full_also_checks_what_compiles(project):
    _, _, out = run(project, "--autofn", "--autofn-level", "full", "--collect-only", "-q")
    assert "mine.py::triple-compile-value" in out
    assert "mine.py::triple-python-compile-graph" in out


def test_spec_files_are_collected_where_testpaths_leads_elsewhere(project):
    (project / "tests").mkdir()
    (project / "test_other.py").rename(project / "tests" / "test_other.py")
    with (project / "pyproject.toml").open("a") as file:
        file.write('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    _, _, out = run(project, "--autofn", "--collect-only", "-q")
    assert "mine.py::triple-python-value" in out
    assert "tests/test_other.py::test_other" in out
    _, _, out = run(project, "--autofn", "--collect-only", "-q", "tests")
    assert "mine.py" not in out, "what pytest is given is what it runs"


def test_a_spec_file_that_pytest_is_given_needs_no_setting(project):
    (project / "pyproject.toml").unlink()
    _, _, out = run(project, "--autofn", "--collect-only", "-q", "mine.py")
    assert out.count("mine.py::triple-python-value\n") == 1
    assert "test_other" not in out


def test_without_the_flag_nothing_is_collected_and_nothing_imported(project):
    (project / "test_other.py").write_text(
        "import sys\n\n\ndef test_other():\n"
        "    assert [name for name in ('torch', 'autofn.registry', 'autofn.spec_items') if name in sys.modules] == []\n"
    )
    status, found, out = run(project)
    assert status == 0, out
    assert found == {"test_other.py::test_other": "PASSED"}


def test_a_spec_file_that_cannot_be_read_is_an_error_with_its_line_and_the_others_are_collected(project):
    (project / "broken.py").write_text("SPEC = Spec(\n")
    (project / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["mine.py", "broken.py"]\n')
    status, _, out = run(project, "--autofn", "--collect-only", "-q")
    assert status == 2
    assert "mine.py::triple-python-value" in out
    assert "SyntaxError: '(' was never closed (broken.py:1: `SPEC = Spec(`)" in out
    assert "Traceback" not in out


def test_specs_that_are_not_there_are_a_mistake_in_a_sentence(project):
    (project / "mine.py").unlink()
    status, _, out = run(project, "--autofn")
    assert status == 4
    assert "--autofn: there is no file" in out
    assert "Traceback" not in out
