"""Building: without a compiler, or with sources that do not compile, the package installs and says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import pytest
from support import copy_working_tree, python

pytestmark = pytest.mark.slow

SENTENCE = "the C++ extension was not built: "


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    copy_working_tree(folder)
    return folder


def wheel(source, **changes):
    """Builds a wheel as pip does, offline; its names, its `_build.json`, and where it is unpacked."""
    target = source.parent / "wheels"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOFN_", "CXX", "CC"))}
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        target,
        source,
    ]
    done = subprocess.run(
        list(map(str, words)), env={**kept, **changes}, cwd=source.parent, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (path,) = target.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(source.parent / "site")
        names = archive.namelist()
        return names, json.loads(archive.read("autofn/_build.json")), source.parent / "site"


def without_a_compiler(folder):
    """Variables under which no compiler is found, and hardly anything else."""
    (folder / "bin").mkdir()
    return {"PATH": str(folder / "bin"), "CXX": "/nowhere/c++", "CC": "/nowhere/cc"}


def extensions(names):
    return [name for name in names if name.startswith("autofn/_C") and name.endswith((".so", ".pyd"))]


# An editable installation beside it would lend its own extension.
ASK = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(getattr(finder, "__module__", finder))]
import autofn
from autofn import extension, registry
print(autofn.__file__)
print(extension.unavailable())
for name in registry.names():
    for found in registry.variants(name):
        print(found.kind, registry.unavailable(name, found.name) or "runs")
"""


def ask(site):
    """Where the package came from, why there is no extension, and [(kind, what keeps a variant from running)]."""
    done = python("-P", "-c", ASK, cwd=site.parent, package=site)
    assert done.returncode == 0, done.stderr
    where, reason, *variants = done.stdout.splitlines()
    assert where.startswith(str(site)), "the package under test is the one from the wheel"
    return reason, [tuple(line.split(" ", 1)) for line in variants]


def test_without_a_compiler_the_wheel_builds_and_says_why_there_is_no_extension(source, tmp_path):
    names, record, site = wheel(source, **without_a_compiler(tmp_path))
    assert extensions(names) == []
    pages = {f"autofn/checks/rules/{path.name}" for path in (source / "docs" / "rules").glob("*.md")}
    assert pages
    assert pages <= set(names)
    assert record == {
        "reason": "no C++ compiler '/nowhere/c++' was found when autofn was built; install g++ or set CXX"
    }
    reason, variants = ask(site)
    assert reason == SENTENCE + record["reason"]
    kinds = dict(variants)
    assert {kind: why for kind, why in kinds.items() if kind == "cpp"} == {"cpp": SENTENCE + record["reason"]}
    assert kinds["eager"] == kinds["python"] == "runs"


def test_a_source_that_does_not_compile_costs_the_extension_alone(source):
    for path in (source / "autofn").rglob("*.cpp"):
        path.write_text("this is no C++\n")
    names, record, site = wheel(source)
    assert extensions(names) == []
    assert list(record) == ["reason"]
    assert record["reason"].startswith("compiling failed: ")
    reason, variants = ask(site)
    assert reason == SENTENCE + record["reason"]
    assert ("python", "runs") in variants


def test_an_extension_that_is_not_wanted_is_not_built_and_the_files_of_every_function_are_there(source):
    names, record, site = wheel(source, AUTOFN_NO_EXTENSION="1")
    assert extensions(names) == []
    assert record == {"reason": "autofn was built with AUTOFN_NO_EXTENSION=1"}
    tracked = {
        str(path.relative_to(source))
        for suffix in ("py", "cpp", "cu", "h", "cuh", "css", "js", "html")
        for path in (source / "autofn").rglob(f"*.{suffix}")
    }
    assert tracked <= set(names)
    assert ask(site)[0] == SENTENCE + record["reason"]


def test_the_build_record_tells_what_an_extension_was_built_from(tmp_path):
    """One tiny module and no kernel, so that it compiles in seconds."""
    import torch

    source = tmp_path / "source"
    source.mkdir()
    copy_working_tree(source)
    for path in [*source.glob("autofn/functions/*/kernel.cpp"), *source.glob("autofn/csrc/*.cpp")]:
        path.unlink()
    (source / "autofn" / "csrc" / "module.cpp").write_text(
        "#include <Python.h>\n"
        'PyMODINIT_FUNC PyInit__C() { static PyModuleDef m = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};'
        " return PyModule_Create(&m); }\n"
    )
    names, record, site = wheel(source)
    assert len(extensions(names)) == 1
    assert record["torch"] == torch.__version__
    assert record["sources"] == ["autofn/csrc/module.cpp"]
    reason, variants = ask(site)
    assert reason == "None"
    # The operators are not in it: the variants say so, and nothing breaks.
    assert all("the C++ extension has no operator" in why for kind, why in variants if kind == "cpp")


def test_an_older_torch_is_given_a_compiler_that_answers_by_its_own_name(source, tmp_path):
    """Torch 2.11 with CUDA asks the compiler for its version, and refused the answer of `ccache c++`."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("ccache", "c++"):
        (tools / name).write_text('#!/bin/sh\necho "${0##*/} $1"\n')
        (tools / name).chmod(0o755)
    code = (
        "import os, runpy, subprocess, types\n"
        "import setuptools; setuptools.setup = lambda **given: None\n"
        "setup = runpy.run_path('setup.py')\n"
        "setup['use_ccache'](types.SimpleNamespace(is_ninja_available=lambda: True))\n"
        "print(os.environ.get('CXX'), subprocess.check_output(['c++', '-dumpversion'], text=True))\n"
    )
    done = python("-c", code, cwd=source, AUTOFN_NO_EXTENSION="1", PATH=f"{tools}{os.pathsep}{os.environ['PATH']}")
    assert done.stdout.split() == ["None", "c++", "-dumpversion"], done.stderr
    assert (source / "build" / "ccache" / "c++").resolve() == tools / "ccache"
