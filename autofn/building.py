"""C++ sources of somebody's own, compiled at first use and kept by their content.

    building.load(Path(__file__).with_name("kernel.cpp"))
    apply = torch.ops.my_functions.swish.default

They may include the headers of this package, `#include "autofn/csrc/elementwise.h"`. What is built lies below
AUTOFN_CACHE, by default the user's cache folder, under a digest of all that went into it: a change is built anew, and
what was built once is built by no other process, environment or commit again.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import platformdirs
import torch

from .compile_flags import compile_flags

HEADERS = ("*.h", "*.hpp", "*.cuh")
PACKAGE = Path(__file__).parent
LIBRARY = "operators"
# Lines of the compiler's output that are shown; the log has them all.
SHOWN = 12

# What this process has loaded: operators can be registered once.
_LOADED: set[str] = set()


class CompilingError(RuntimeError):
    """The sources do not compile; the message has the compiler's own words and where the rest of them is."""


def load(*sources: Path | str, flags: Sequence[str] = ()) -> None:
    """Builds the sources unless that was done before, and registers the operators that they define.

    flags: further ones for the compiler. Raises LookupError for a file that is not there, NotImplementedError where
    there is no compiler, CompilingError where they do not compile.
    """
    files = [Path(source).resolve() for source in sources]
    for file in files:
        if not file.is_file():
            raise LookupError(f"there is no file {file}")
    flags = [*compile_flags(_arch()), *flags]
    digest = _digest(files, flags)
    if digest not in _LOADED:
        torch.ops.load_library(_built(files, flags, cache() / digest))
        _LOADED.add(digest)


def cache() -> Path:
    """The folder that keeps what was built."""
    return Path(os.environ.get("AUTOFN_CACHE") or platformdirs.user_cache_path("autofn")) / "operators"


def _arch() -> str:
    return "x86-64-v3" if "AVX2" in torch.backends.cpu.get_cpu_capability() else "baseline"


def _digest(files: Sequence[Path], flags: Sequence[str]) -> str:
    """Of the sources, all headers beside them and of this package, the flags, the compiler and torch."""
    headers = {path for file in files for kind in HEADERS for path in file.parent.rglob(kind)}
    own = {path for kind in HEADERS for path in (PACKAGE / "csrc").glob(kind)}
    found = hashlib.sha256(f"{torch.__version__} {os.environ.get('CXX', 'c++')} {shlex.join(flags)}\n".encode())
    for path in [*files, *sorted(headers), *sorted(own)]:
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()[:20]


def _built(files: Sequence[Path], flags: Sequence[str], folder: Path) -> Path:
    """The library in `folder`, which appears when it is whole. One process builds, the others wait for it."""
    library = folder / f"{LIBRARY}.so"
    if library.is_file():
        return library
    _must_have_tools()
    with _alone(folder.with_suffix(".lock")):
        if not library.is_file():
            print(f"autofn: compiling {', '.join(file.name for file in files)}, once for its content", file=sys.stderr)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                _compile(files, flags, made, folder.with_suffix(".log"))
                os.replace(made, folder)
    return library


def _must_have_tools() -> None:
    compiler = shlex.split(os.environ.get("CXX", "c++"))[-1]
    if not shutil.which(compiler):
        raise NotImplementedError(f"needs a C++ compiler, and there is no {compiler!r}; install g++ or set CXX")
    if not shutil.which("ninja", path=_path()):
        raise NotImplementedError("needs ninja to compile its sources: pip install ninja")


def _path() -> str:
    """Where tools are looked for: beside this Python too, for nobody need have activated its environment."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time; a killed one leaves nothing locked."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# In a process of its own: torch's loader would register the operators while they lie in the scratch folder.
COMPILE = f"""
import sys
from torch.utils import cpp_extension
folder, include, sources, *flags = sys.argv[1:]
cpp_extension.load(
    "{LIBRARY}", sources.split("\\n"), extra_cflags=["-iquote", include, *flags], extra_ldflags=["-fopenmp"],
    build_directory=folder, is_python_module=False,
)
"""


def _compile(files: Sequence[Path], flags: Sequence[str], folder: Path, log: Path) -> None:
    words = [str(folder), str(PACKAGE.parent), "\n".join(map(str, files)), *flags]
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *words],
        env={**os.environ, "PATH": _path()}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode:
        log.write_text(done.stdout)
        said = [line for line in done.stdout.splitlines() if "error:" in line or line.startswith("FAILED")]
        told = "\n".join((said or done.stdout.strip().splitlines())[-SHOWN:])
        raise CompilingError(f"{', '.join(file.name for file in files)} does not compile; {log} has all of it:\n{told}")
