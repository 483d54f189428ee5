"""One folder more is one Function more, everywhere: in a copy of the repository where nothing else is edited."""

from __future__ import annotations

import json

import pytest
from support import copy_working_tree, python, write_function

from autofn import registry, results
from autofn.records import is_ceiling

pytestmark = pytest.mark.slow

NAME = "planted_square"
NATIVE = '"""The square by PyTorch\'s own operator."""\n\nimport torch\n\napply = torch.square\n'

DISCOVER = """
import sys
from asv_runner.discovery import disc_benchmarks
for benchmark in disc_benchmarks("benchmarks"):
    print(benchmark.name)
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy") / "repository"
    copy_working_tree(folder)
    assert NAME not in registry.names()
    write_function(folder / "autofn" / "functions", NAME, native=NATIVE)
    return folder


def run(repository, *words, status=0):
    done = python("-m", "autofn", *words, cwd=repository)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_a_new_folder_is_listed_checked_measured_traced_and_reported(repository):
    (found,) = json.loads(run(repository, "list", "--json", NAME))
    assert list(found["variants"]) == ["eager", "native", "python"]
    assert NAME in run(repository, "list")
    assert len(json.loads(run(repository, "list", "--json"))) == len(registry.names()) + 1

    out = run(repository, "check", NAME)
    assert f"│ {NAME} │ native" in out
    assert " 0 errors, 0 warnings" in out

    out = run(repository, "bench", NAME, "--budget", "0.01", "-w", "tiny", "--phase", "backward")
    assert f"{NAME} tiny float32" in out

    run(repository, "trace", NAME, "--workload", "tiny", "--steps", "1")
    assert list((repository / "traces").glob(f"{NAME}/python/*.pt.trace.json.gz"))

    frame = results.load(repository)
    frame = frame[~is_ceiling(frame["function"])]
    assert set(frame["function"]) == {NAME}
    assert set(frame["source"]) == {"bench", "check"}
    assert set(frame[frame["source"] == "bench"]["variant"]) == {"eager", "native", "python"}

    run(repository, "report")
    pages = [path.read_text() for path in (repository / "reports" / "html").rglob("*.html")]
    assert any(NAME in page for page in pages)


def test_a_new_folder_has_suites_of_asv(repository):
    done = python("-c", DISCOVER, cwd=repository)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert {f"timing.{NAME}.forward_time", f"memory.{NAME}.saved_bytes"} <= found
    methods = {name.rpartition(".")[2] for name in found}
    assert len(found) == len(methods) * (len(registry.names()) + 1)


def test_a_new_folder_is_in_the_parametrised_tests(repository):
    done = python("-m", "pytest", "--collect-only", "-q", "tests/test_functions.py", cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
    for variant in ("eager", "native", "python"):
        assert f"[{NAME}-{variant}-tiny-float32]" in done.stdout
    done = python("-m", "pytest", "-q", "-k", f"{NAME} and tiny", "tests/test_functions.py", cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
