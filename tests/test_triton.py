"""The Triton variants without a GPU: interpreted on the CPU they pass every test of Functions, and they compile."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support import ROOT

from autofn import registry

FUNCTIONS = [name for name in registry.names() if any(variant.kind == "triton" for variant in registry.variants(name))]
TESTS = Path(__file__).parent

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
each_function = pytest.mark.parametrize("function", FUNCTIONS)


@pytest.fixture(scope="module")
def chosen(request):
    """The Functions that tests of this module were selected for."""
    items = [item for item in request.session.items if item.path == request.path]
    return sorted({item.callspec.params["function"] for item in items if hasattr(item, "callspec")})


def run(*words, **changes):
    """This interpreter on the words; what it printed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "PYTEST_"))}
    kept["TRITON_CACHE_DIR"] = str(ROOT / "build" / "triton")
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, env={**kept, **changes}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def interpreted(chosen, tmp_path_factory):
    """The tests of Functions, run once more by a pytest in which Triton interprets: the test cases of its report."""
    report = tmp_path_factory.mktemp("triton") / "report.xml"
    done = run(
        "-m", "pytest", TESTS / "test_functions.py", TESTS / "functions", "-k", f"triton and ({' or '.join(chosen)})",
        "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
        # NumPy, which computes for the interpreter, warns of an overflow that a GPU passes over.
        "-W", "ignore::RuntimeWarning:triton.runtime.interpreter",
        TRITON_INTERPRET="1",
    )  # fmt: skip
    assert report.exists(), done.stdout + done.stderr
    return list(ElementTree.parse(report).iter("testcase"))


@pytest.fixture(scope="module")
def compilations(chosen):
    """What `ahead_of_time.py` found."""
    done = run(TESTS / "ahead_of_time.py", *chosen)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def is_of(function, case):
    """Whether a test case is one of the Function: by its parameters or by its file."""
    return re.search(rf"\[{function}-triton", case.get("name")) or case.get("classname").endswith(f"test_{function}")


def faults(case):
    """The texts of what failed in a test case."""
    return [fault.text for kind in ("failure", "error") for fault in case.iter(kind)]


@each_function
def test_interpreted_it_passes_the_tests_of_functions(function, interpreted):
    mine = [case for case in interpreted if is_of(function, case)]
    failed = [f"{case.get('classname')}::{case.get('name')}\n{text}" for case in mine for text in faults(case)]
    skipped = [skip.get("message") for case in mine for skip in case.iter("skipped")]

    assert not failed, "\n\n".join(failed)
    # Three dtypes by two workloads, and what is tested of every variant.
    assert len(mine) - len(skipped) > 12, skipped


@each_function
def test_every_kernel_compiles_for_hopper_in_every_dtype(function, compilations):
    found = compilations[function]
    types = {kernel: set() for kernel in found["kernels"]}
    for each in found["compilations"]:
        assert isinstance(each["outcome"], int), f"{each['kernel']} {each['signature']}\n{each['outcome']}"
        types[each["kernel"]].update(each["signature"].values())
    for kernel, declared in types.items():
        assert declared >= {"*fp32", "*bf16", "*fp64", "*fp16"}, f"{kernel} is declared for {declared or 'no dtype'}"
