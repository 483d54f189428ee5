"""`autofn init`: the repository that it makes runs asv, pytest, a report and a comparison, from clean."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest
from support import ROOT, commit, git, python
from test_origins import OWN

from autofn import comparing, results, scaffold
from autofn.comparing import builds, plan
from autofn.comparing.run import Comparison, one_look
from autofn.measure.lockstep import Effort
from autofn.measure.processes import Processes

# The Function in a module of the repository, the Spec in a file: both are those of the commit that is measured.
OPS = "import torch\n" + OWN[OWN.index("def triple") : OWN.index("def make_inputs")].rstrip() + "\n"
SPECS = (
    OWN[: OWN.index("def triple")].rstrip()
    + "\nfrom my_ops import Triple, triple\n\n\n"
    + OWN[OWN.index("def make_inputs") :].replace("NAME", "triple").replace("VARIANTS", '{"python": Triple}')
)
KEEPING = OPS.replace(
    "        return 3 * x\n\n    @staticmethod\n",
    "        ctx.save_for_backward(x.clone())\n        return 3 * x\n\n    @staticmethod\n",
)


@pytest.fixture
def repository(tmp_path):
    """Somebody's repository with a Function, before `autofn init`."""
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk")
    (tmp_path / "my_ops.py").write_text(OPS)
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.py").write_text(SPECS)
    (tmp_path / "pyproject.toml").write_text('[tool.autofn]\nspecs = ["specs/mine.py"]\n')
    commit(tmp_path, "a Function")
    return tmp_path


def autofn(folder, *words, status=0):
    done = python("-m", "autofn", *words, cwd=folder, package=ROOT)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_it_writes_what_asv_reports_and_a_workflow_need(repository):
    out = autofn(repository, "init")
    assert out.split() == list(scaffold.REPOSITORY.values())
    config = json.loads((repository / "asv.conf.json").read_text())
    assert (config["branches"], config["project"]) == (["trunk"], repository.name)
    assert ".asv/" in (repository / ".gitignore").read_text().split()


def test_the_workflow_runs_commands_that_there_are(repository):
    autofn(repository, "init")
    text = (repository / ".github" / "workflows" / "autofn.yml").read_text()
    assert "${{ github.event.pull_request.base.sha }}" in text
    assert re.search(r"^on: pull_request$", text, re.MULTILINE)
    assert "{=" not in text
    commands = re.findall(r"autofn (check|compare) (.*)", text)
    assert [name for name, _ in commands] == ["check", "compare"]
    for name, words in commands:
        known = autofn(repository, name, "--help")
        assert all(option in known for option in re.findall(r"--\w+", words))


def test_nothing_is_written_over_and_that_is_told(repository):
    (repository / "asv.conf.json").write_text("{}")
    (repository / ".gitignore").write_text("mine\n")
    done = python("-m", "autofn", "init", cwd=repository, package=ROOT)
    assert done.returncode == 0
    assert "asv.conf.json is there already and was left as it is" in done.stderr
    assert "see that .gitignore holds .asv/ .autofn/" in done.stderr
    assert (repository / "asv.conf.json").read_text() == "{}"
    assert (repository / ".gitignore").read_text() == "mine\n"
    assert (repository / "benchmarks" / "timing.py").exists()


def test_where_it_makes_no_sense_it_says_why_and_writes_nothing(repository, tmp_path_factory):
    with pytest.raises(ValueError, match="this is a checkout of autofn"):
        scaffold.init(ROOT)
    with pytest.raises(ValueError, match="run it at the top of the repository"):
        scaffold.init(repository / "specs")
    (repository / "pyproject.toml").unlink()
    with pytest.raises(ValueError, match="names no spec files; `autofn new NAME` writes one"):
        scaffold.init(repository)
    outside = tmp_path_factory.mktemp("outside")
    with pytest.raises(LookupError, match="not in a git repository"):
        scaffold.init(outside)
    assert not (repository / "benchmarks").exists()


@pytest.mark.slow
def test_asv_pytest_and_the_report_run_from_clean(repository):
    autofn(repository, "init")
    hash_of = commit(repository, "autofn init")

    asv("machine", "--yes", cwd=repository)
    chosen = r"forward_time\('(eager|python)', 'small', 'float32', 'cpu'"
    asv("run", "--bench", chosen, "HEAD^!", cwd=repository)
    found = results.load(repository)
    assert set(found["source"]) == {"asv"}
    assert set(found["commit"]) == {hash_of}
    assert set(found[found["status"] == "ok"]["variant"]) >= {"eager", "python"}

    words = ("-m", "pytest", "-p", "autofn.pytest_plugin", "--autofn", "-q", "-k", "python-value or python-gradient-")
    done = python(*words, cwd=repository, package=ROOT)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed", done.stdout)

    pages = autofn(repository, "report").split()
    assert {page.rpartition("/")[2] for page in pages} >= {"index.html", "commits.html", "comparison.html"}
    assert all("triple" in (repository / page).read_text() for page in pages if not page.endswith("index.html"))


@pytest.mark.slow
def test_two_commits_of_it_are_compared_each_with_its_own_code(repository):
    (repository / "my_ops.py").write_text(KEEPING)
    commit(repository, "keep a copy")
    before, after = (builds.side(name, repository) for name in ("HEAD~1", "HEAD"))
    assert plan.differing(before, after, ["triple"]) == ["triple"]
    assert plan.differing(before, before, ["triple"]) == []
    with Processes() as processes:
        described = [comparing.describe(one, ["triple"], processes) for one in (before, after)]
        (pair,) = plan.pairs(*described, ["triple"], variants=["python"], workloads=["tiny"])
        once = Effort(0.05, rounds=2, servers=1, most_passes=1)
        changes = one_look(processes, Comparison(before, after, ("forward",), 1.0), pair, once)
    (kept,) = (change for change in changes if change.metric == "saved_new_bytes")
    assert (kept.verdict, kept.base, kept.head) == ("more", 0, 20)


def asv(*words, cwd):
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    home = cwd / "home"
    home.mkdir(exist_ok=True)
    done = python("-m", "asv", *words, cwd=cwd, package=ROOT, AUTOFN_PROFILE="glance", HOME=str(home), PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
