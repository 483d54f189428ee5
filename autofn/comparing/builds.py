"""From what a person names (a revision, the working tree, a Python) to a build that arms can run. Imports no torch.

In a checkout of the package a build is the package, installed into a folder. In somebody's own repository it is a copy
of the repository, whose spec files are those of its pyproject.toml, beside the one package that is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ..measure.processes import Build
from ..origins import ENVIRONMENT, of_project
from ..repository import resolve, run_git, top
from ..sources import ROOT

BUILDS = Path(".autofn/builds")
ASV_ENVIRONMENTS = Path(".asv/env")
WORKING_TREE = "."
BUILD_WHEEL = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
# The last lines of a compiler's output that are shown; the log has them all.
LOG_LINES = 15


class BuildError(RuntimeError):
    """A side could not be built; the message says why and where the log is."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    name: as it was given. commit: the full hash, "+dirty" for the working tree, "" for a Python. folder: its packages,
    None for a Python, which has them installed. own: None in a checkout of the package; in somebody's repository the
    folder of Functions, relative, or "" where they lie in files.
    """

    name: str
    commit: str
    build: Build
    folder: Path | None
    own: str | None = None

    @property
    def title(self) -> str:
        """Such as "main~3 (1a2b3c4d5e6f)"."""
        short = f"{self.commit[:12]}{'+dirty' if self.commit.endswith('+dirty') else ''}"
        if self.name == WORKING_TREE:
            return f"the working tree on {short}"
        return f"{self.name} ({short})" if self.commit and not self.commit.startswith(self.name) else self.name


def side(name: str, root: Path, *, threads: int = 1, said: Callable[[str], None] = lambda text: None) -> Side:
    """What `name` names in the repository at `root`: a Python (a path), "." (the working tree), or a revision.

    A revision and the working tree are built unless their build is there already, under .autofn/builds. said: told
    before something that takes time. Raises LookupError for what does not exist, BuildError where building fails.
    """
    if name != WORKING_TREE and os.sep in name and os.access(name, os.X_OK) and Path(name).is_file():
        return Side(name, "", Build(python=name, threads=threads), None)
    root = top(root)
    copy: Callable[[Path, Path], None]
    if name == WORKING_TREE:
        commit = run_git(root, "rev-parse", "HEAD") + "+dirty"
        label, copy = tree_digest(root), _copy_tree
    else:
        commit = resolve(root, name)
        label, copy = commit[:12], _copy_commit(commit)
    folder = root / BUILDS / f"{label}-torch{metadata.version('torch')}"
    if is_package(root):
        if not folder.exists():
            wheel = asv_wheel(root, commit)
            said(f"unpacking asv's build of {name}" if wheel else f"building {name}")
            _build(root, copy, folder, wheel)
        return Side(name, commit, Build(threads=threads, environment=environment(root, folder)), folder)
    if not folder.exists():
        _copy(root, copy, folder)
    own = Build(threads=threads, environment=_own_environment(root, folder))
    return Side(name, commit, own, folder, _folder_of_functions(folder))


def is_package(root: Path) -> bool:
    """Whether a repository is one of this package itself, not somebody's own."""
    return (root / "autofn" / "functions").is_dir()


def _folder_of_functions(copy: Path) -> str:
    folders = [Path(text) for text in of_project(copy / "pyproject.toml") if Path(text).is_dir()]
    return str(folders[0].relative_to(copy)) if folders else ""


def tree_files(root: Path) -> list[Path]:
    """The files of the working tree that git would take, deleted ones left out."""
    listed = run_git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    ours = (f"{BUILDS.parts[0]}/", ".asv/")
    return [Path(name) for name in sorted(set(listed)) if (root / name).is_file() and not name.startswith(ours)]


def tree_digest(root: Path) -> str:
    found = hashlib.sha256()
    for file in tree_files(root):
        found.update(f"{file}\n".encode() + (root / file).read_bytes())
    return f"tree-{found.hexdigest()[:12]}"


def _copy_tree(root: Path, target: Path) -> None:
    for file in tree_files(root):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / file, target / file)


def _copy_commit(commit: str) -> Callable[[Path, Path], None]:
    def copy(root: Path, target: Path) -> None:
        archive = subprocess.run(
            ["git", "-C", str(root), "archive", "--format=tar", commit], check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(target)], input=archive.stdout, check=True)

    return copy


def asv_wheel(root: Path, commit: str) -> Path | None:
    """What asv built of the commit and keeps, in an environment of this Python and this torch."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for path in sorted((root / ASV_ENVIRONMENTS).glob("*/asv-env-info.json")):
        made = json.loads(path.read_text())
        torch = made["requirements"].get("torch", "")
        fits = made["python"] == python and metadata.version("torch").split("+")[0] == torch
        kept = path.parent / "asv-build-cache" / commit
        # The time is written when the build is there.
        if fits and kept.with_name(f"{commit}.timestamp").exists():
            return next(kept.glob("*.whl"), None)
    return None


def _build(root: Path, copy: Callable[[Path, Path], None], folder: Path, wheel: Path | None) -> None:
    """Packages of a wheel, or of the sources that `copy` fetches, in `folder`, which appears when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder.parent) as scratch:
        sources, wheels, packages = (Path(scratch).resolve() / name for name in ("sources", "wheels", "packages"))
        for made in (sources, wheels, packages):
            made.mkdir()
        log = folder.with_suffix(".log").resolve()
        if wheel:
            shutil.copy2(wheel, wheels)
        else:
            copy(root, sources)
            _call([sys.executable, "-c", BUILD_WHEEL, str(wheels)], sources, log)
        unpack = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
        _call([*unpack, str(packages), *map(str, wheels.glob("*.whl"))], sources, log)
        os.replace(packages, folder)


def _copy(root: Path, copy: Callable[[Path, Path], None], folder: Path) -> None:
    """The sources that `copy` fetches in `folder`, which appears when it is whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-", dir=folder.parent) as scratch:
        sources = Path(scratch) / "sources"
        sources.mkdir()
        copy(root, sources)
        os.replace(sources, folder)


def _call(command: list[str], folder: Path, log: Path) -> None:
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with log.open("a") as file:
        file.write(done.stdout)
    if done.returncode:
        end = "\n".join(done.stdout.strip().splitlines()[-LOG_LINES:])
        raise BuildError(f"building failed, {log} has all of it:\n{end}")


def environment(root: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    """Its packages come before all others; compiled kernels are kept where all builds find them."""
    path = os.pathsep.join([str(folder.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])])
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(root.resolve() / "build" / "inductor"))
    return (("PYTHONPATH", path), ("TORCHINDUCTOR_CACHE_DIR", cache))


def _own_environment(root: Path, folder: Path) -> tuple[tuple[str, str], ...]:
    """The copy is where modules and spec files are looked for, those too that are named by paths in the repository."""
    named = [Path(text) for text in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if text]
    moved = [str(folder / path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in named]
    specs = ((ENVIRONMENT, os.pathsep.join(moved)),) if moved else ()
    source = folder / "src"
    return (*environment(root, source if source.is_dir() else folder), (ROOT, str(folder.resolve())), *specs)
