"""The C++ extension `autofn._C`: every kernel.cpp found by a glob, with CUDA kernels where CUDA is there.

Options, by environment variable:
  AUTOFN_ARCH=x86-64-v3 (default on x86: AVX2 and FMA, which Valgrind can run), native, or baseline
  AUTOFN_NO_EXTENSION=1 builds none; AUTOFN_STRICT=1 makes a failed compilation an error
  MAX_JOBS, CXX: as in torch.utils.cpp_extension
Whatever keeps the extension from being built is written to `_build.json`, and the installation succeeds without it.
"""

from __future__ import annotations

import json
import os
import platform
import runpy
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
RECORD = "autofn/_build.json"
FLAGS = runpy.run_path(str(ROOT / "autofn" / "compile_flags.py"))


class NoExtensionError(Exception):
    """The extension cannot be built here; the message says why."""


def import_torch() -> Any:
    """The torch that the extension will run with: an isolated build environment hides it, but not from its path."""
    for key in ("purelib", "platlib"):
        if sysconfig.get_path(key) not in sys.path:
            sys.path.append(sysconfig.get_path(key))
    try:
        import torch
        import torch.utils.cpp_extension
    except ImportError as error:
        raise NoExtensionError(
            f"torch could not be imported when autofn was built ({error}); "
            "with torch installed, run: pip install --force-reinstall --no-deps --no-cache-dir autofn"
        ) from error
    return torch


def arch() -> str:
    """The instruction set that was asked for."""
    default = "x86-64-v3" if platform.machine() in ("x86_64", "AMD64") else "baseline"
    chosen = os.environ.get("AUTOFN_ARCH", default)
    if chosen not in FLAGS["ARCHITECTURES"]:
        raise SystemExit(f"setup.py: AUTOFN_ARCH must be one of {', '.join(FLAGS['ARCHITECTURES'])}, got {chosen!r}")
    return chosen


def use_ccache(cpp: Any) -> None:
    """Compile through ccache where it is present; its keys must not hold the folder that asv checks out to."""
    compiler = os.environ.get("CXX", "c++")
    if not shutil.which(shlex.split(compiler)[-1]):
        raise NoExtensionError(f"no C++ compiler {compiler!r} was found when autofn was built; install g++ or set CXX")
    if not shutil.which("ccache") or "ccache" in compiler:
        return
    os.environ.setdefault("CCACHE_BASEDIR", str(ROOT.resolve()))
    os.environ.setdefault("CCACHE_NOHASHDIR", "1")
    # Newer torch puts ccache in front by itself when it compiles with ninja.
    if not (cpp.is_ninja_available() and hasattr(cpp, "_wrap_compiler")):
        call_by_compilers_names("ccache", ROOT.resolve() / "build" / "ccache")


def call_by_compilers_names(wrapper: str, folder: Path) -> None:
    """Puts links to ccache first on PATH: it then runs the next compiler of the name that it was called by.

    As a word in CXX it would be what torch asks for its version, and with CUDA refuses for being none of a compiler.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("c++", "g++", "cc", "gcc"):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(str(shutil.which(wrapper)))
    os.environ["PATH"] = os.pathsep.join([str(folder), os.environ.get("PATH", "")])


def extension(torch: Any) -> Any:
    """The Extension: module.cpp, every kernel.cpp, and where torch has CUDA and nvcc is there the CUDA kernels."""
    cpp = torch.utils.cpp_extension
    cuda = torch.version.cuda is not None and bool(cpp.CUDA_HOME)
    patterns = ["csrc/*.cpp", "functions/*/kernel.cpp"]
    if cuda:
        patterns += ["functions/*/kernel.cu", "functions/*/kernel_cuda.cpp"]
    sources = sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in (ROOT / "autofn").glob(pattern))
    make = cpp.CUDAExtension if cuda else cpp.CppExtension
    flags = FLAGS["compile_flags"](arch())
    return make(
        "autofn._C",
        sources,
        extra_compile_args={"cxx": flags, "nvcc": ["-O3"]} if cuda else flags,
        extra_link_args=["-fopenmp"],
    ), {"torch": torch.__version__, "arch": arch(), "cuda": cuda, "sources": sources}


def configured() -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments for setup(), and the record of the build."""
    try:
        if os.environ.get("AUTOFN_NO_EXTENSION") == "1":
            raise NoExtensionError("autofn was built with AUTOFN_NO_EXTENSION=1")
        torch = import_torch()
        use_ccache(torch.utils.cpp_extension)
        module, record = extension(torch)
    except NoExtensionError as error:
        print(f"autofn: building without the C++ extension: {error}", file=sys.stderr)
        return {}, {"reason": str(error)}
    command = build_ext_or_reason(torch.utils.cpp_extension.BuildExtension, record)
    return {"ext_modules": [module], "cmdclass": {"build_ext": command}}, record


def build_ext_or_reason(base: Any, record: dict[str, Any]) -> Any:
    """BuildExtension, but a failed compilation becomes the reason why the cpp variants are unavailable."""

    class BuildOrSayWhy(base):
        extensions: list[Any]

        def run(self) -> None:
            try:
                super().run()
            except Exception as error:  # a compiler can fail in any way, and the rest of autofn works without it
                if os.environ.get("AUTOFN_STRICT") == "1":
                    raise
                record.clear()
                record["reason"] = f"compiling failed: {str(error).strip().splitlines()[0]}"
                print(f"autofn: {record['reason']}", file=sys.stderr)
                self.extensions = []
            write_record(self.get_finalized_command("build_py"), record)

        def build_extensions(self) -> None:
            # kernel.cpp and kernel.cu of one folder would both be compiled to kernel.o.
            names = self.compiler.object_filenames
            self.compiler.object_filenames = lambda sources, *args, **keywords: [
                f"{name}.cuda.o" if source.endswith(".cu") else name
                for source, name in zip(sources, names(sources, *args, **keywords), strict=True)
            ]
            super().build_extensions()

    return BuildOrSayWhy


def write_record(command: Any, record: dict[str, Any]) -> None:
    """`_build.json` beside the package's modules, in the source tree for an editable installation."""
    folder = ROOT if command.editable_mode else Path(command.build_lib)
    target = folder / RECORD
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=1) + "\n")


def copy_rule_pages(command: Any) -> None:
    """The page of each rule of `autofn check` beside the rules; an editable installation reads them in docs/."""
    if command.editable_mode:
        return
    target = Path(command.build_lib) / "autofn" / "checks" / "rules"
    target.mkdir(parents=True, exist_ok=True)
    for page in sorted((ROOT / "docs" / "rules").glob("*.md")):
        shutil.copyfile(page, target / page.name)


def main() -> None:
    keywords, record = configured()

    class BuildAndRecord(build_py):
        def run(self) -> None:
            super().run()
            write_record(self, record)
            copy_rule_pages(self)

    commands = {**keywords.pop("cmdclass", {}), "build_py": BuildAndRecord}
    setup(cmdclass=commands, **keywords)


if __name__ in ("__main__", "builtins"):
    main()
