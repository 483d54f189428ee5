"""The tutorial: its session prints what it says, its files pass check, and its C++ is that of `autofn new`."""

from __future__ import annotations

import importlib.util
import re

import documents
import pytest
from support import ROOT, python

from autofn import scaffold

PAGE = ROOT / "docs" / "tutorial.md"
TEXT = PAGE.read_text()
NAME = "signed_square"
# What computes; the rest of the contract is tested on the Functions of the registry.
RULES = ("value", "gradient", "double-backward", "ctx-tensor")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """What `autofn new` writes, and the files of the page."""
    folder = tmp_path_factory.mktemp("tutorial")
    scaffold.new(NAME, folder)
    for block in documents.blocks(TEXT):
        if found := re.fullmatch(r'python title="(.+)"', block.kind):
            (folder / found[1]).write_text(block.text)
    return folder


def check(repository, variant, **changes):
    chosen = [word for rule in RULES for word in ("--select", rule)]
    return python("-m", "autofn", "check", "-v", variant, *chosen, cwd=repository, package=ROOT, **changes)


@pytest.mark.parametrize("heading", documents.headings(PAGE))
def test_a_step_prints_what_it_says(heading):
    assert documents.run(PAGE).wrong(heading) == []


def test_the_cpp_of_the_page_is_what_autofn_new_writes(repository):
    kernel = (repository / "functions" / NAME / "kernel.cpp").read_text()
    shown = [block.text for block in documents.blocks(TEXT) if block.kind == "cpp"]
    assert len(shown) == 4
    assert [lines for lines in shown if lines not in kernel] == []


@pytest.mark.slow
def test_the_first_version_is_faulted(repository):
    done = check(repository, "python_first")
    assert done.returncode == 1, done.stdout + done.stderr
    assert set(re.findall(r"^error ([a-z-]+):", done.stdout, re.MULTILINE)) == {"double-backward", "ctx-tensor"}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_the_triton_kernels_pass_in_the_interpreter(repository):
    done = check(repository, "triton", TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ checks, 0 errors, 0 warnings", done.stdout, re.MULTILINE)
