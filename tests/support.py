"""What the tests of the core share: Functions planted for one test, a scratch copy of the package, and a clock."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import autofn.functions
from autofn import Spec, Tolerance, calls, registry
from autofn.case import Key, prepare

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "autofn"
WORKLOADS = {"tiny": {"n": 6}, "small": {"n": 64}, "large": {"n": 128}}
TOLERANCES = {
    torch.float32: Tolerance(1e-6, 1e-6, "four roundings"),
    torch.float64: Tolerance(1e-12, 1e-12, "four roundings"),
}


def square(x):
    return x * x


def square_inputs(n, *, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, generator=generator).to(device, dtype).requires_grad_(),)


def make_spec(**changes):
    """y = x * x over n numbers, or what `changes` make of it."""
    fields = {
        "name": "square", "reference": square, "make_inputs": square_inputs, "workloads": WORKLOADS,
        "tolerances": TOLERANCES, "version": "1",
    }  # fmt: skip
    return Spec(**{**fields, **changes})


def case_of(apply=None, spec=None, variant="python", workload="tiny", dtype="float32"):
    """A case of `spec` on the CPU, by default of the square."""
    spec = spec or make_spec()
    return prepare(spec, Key(spec.name, variant, workload, dtype, "cpu"), apply or spec.reference)


class Clock:
    """Time that passes only when somebody lets it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


DECLARATION = '''"""The square, `y = x * x`, planted by a test."""

import torch

from autofn import Spec, Tolerance

from .reference import square


def make_inputs(n, *, dtype, device, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, generator=generator).to(device, dtype).requires_grad_(),)


SPEC = Spec(
    name="NAME",
    reference=square,
    make_inputs=make_inputs,
    workloads={"tiny": {"n": 6}, "small": {"n": 64}, "large": {"n": 128}},
    tolerances={
        torch.float32: Tolerance(1e-6, 1e-6, "four roundings"),
        torch.float64: Tolerance(1e-12, 1e-12, "four roundings"),
    },
    version="1",
    without={"compile": "compiling it would take longer than the test"},
)
'''

REFERENCE = '''"""The formula."""


def square(x):
    return x * x
'''

PYTHON = '''"""The square as a torch.autograd.Function."""

import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


apply = Square.apply
'''


def write_function(functions, name, declaration=DECLARATION, **variants):
    """A folder `functions/name` with the square, its python variant, and further files by their stem."""
    folder = functions / name
    folder.mkdir(parents=True)
    files = {"__init__": declaration.replace("NAME", name), "reference": REFERENCE, "python": PYTHON, **variants}
    for stem, text in files.items():
        (folder / f"{stem}.py").write_text(text)
    return folder


def plant(monkeypatch, functions):
    """Makes the registry of this process find the folders of `functions`, and only those, until the test ends."""
    monkeypatch.setattr(registry, "FOLDER", functions)
    monkeypatch.setattr(autofn.functions, "__path__", [str(functions)])
    registry.spec.cache_clear()
    registry.variants.cache_clear()
    calls.forget()
    for name in [name for name in sys.modules if name.startswith("autofn.functions.")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()


def unplant():
    """Forgets what was planted; for the end of the fixture, after monkeypatch has put everything back."""
    registry.spec.cache_clear()
    registry.variants.cache_clear()
    calls.forget()
    for name in [name for name in sys.modules if name.startswith("autofn.functions.")]:
        del sys.modules[name]


def scratch_package(folder, *, shipped=False):
    """A copy of the package, without the extension; without the shipped Functions unless asked for."""
    ignored = ["__pycache__", "*.so", "_build.json"]
    shutil.copytree(PACKAGE, folder / "autofn", ignore=shutil.ignore_patterns(*ignored))
    functions = folder / "autofn" / "functions"
    if not shipped:
        for path in functions.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
    return functions


def copy_working_tree(folder):
    """What git tracks or would: the working tree without what is built or ignored."""
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(words, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def git(folder, *words):
    identity = {f"GIT_{role}_{what}": "nobody" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    own = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(["git", "-C", str(folder), *words], env=own, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder, message):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def scratch_repository(folder, *functions):
    """A repository of one commit: the working tree, but with planted squares of these names for Functions."""
    copy_working_tree(folder)
    there = folder / "autofn" / "functions"
    for name in registry.names():
        shutil.rmtree(there / name)
    for name in functions:
        write_function(there, name)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, "as it was")
    return folder


def environment(folder, **changes):
    """The environment of a process that imports the package from `folder`, not the one under test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AUTOFN_", "ASV_"))}
    return {**kept, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "COLUMNS": "200", **changes}


def python(*words, cwd, package=None, timeout=120, **changes):
    """Runs this interpreter; the finished process, with its text."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd, env=environment(package or cwd, **changes), capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip


def shell(programs, package, **changes):
    """The environment of a shell in which a page's `autofn`, `pytest` and `python` are those under test.

    programs: a folder for what these names run. The terminal is as wide as a page.
    """
    programs.mkdir()
    for name, words in {"autofn": "-m autofn", "pytest": "-m pytest -p no:cacheprovider", "python": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    nobody = {f"GIT_{role}_{what}": "nobody" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    # A page writes a file anew within a second, which cached byte code would not notice.
    own = {**nobody, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "COLUMNS": "160"}
    found = environment(package, **own, **changes)
    return {**found, "PATH": f"{programs}:{found['PATH']}"}
