"""The CUDA sources compile, without a GPU: kernels by nvcc, their torch wrappers as far as a CPU build's headers go."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch.utils.cpp_extension as cpp_extension

from autofn import registry

KERNELS = sorted(registry.FOLDER.glob("*/kernel.cu"))
WRAPPERS = sorted(registry.FOLDER.glob("*/kernel_cuda.cpp"))


def folder(path: Path) -> str:
    return path.parent.name


def included(path: Path, seen: set[Path]) -> set[str]:
    """Every header that the file includes, through the headers of the project too."""
    found = set()
    for local, name in re.findall(r'#include (?:"(.+?)"|<(.+?)>)', path.read_text()):
        found.add(local or name)
        header = (path.parent / local).resolve()
        if local and header not in seen:
            found |= included(header, seen | {header})
    return found


def cuda_headers() -> Path:
    """nvcc's own include folder; the test is skipped where there is none."""
    if not shutil.which("nvcc"):
        pytest.skip("nvcc is not on the path")
    words = subprocess.run(["nvcc", "-dryrun", "-x", "cu", "-E", "/dev/null"], capture_output=True, text=True).stderr
    match = re.search(r'INCLUDES="-I(\S+?)"', words)
    if not match:
        pytest.skip("nvcc does not say where its headers are")
    return Path(match[1])


def test_each_kernel_has_its_wrapper():
    assert [folder(path) for path in KERNELS] == [folder(path) for path in WRAPPERS]


@pytest.mark.parametrize("kernel", KERNELS, ids=folder)
def test_a_kernel_includes_no_torch_header(kernel):
    assert not [name for name in included(kernel, set()) if re.match(r"(torch|ATen|c10)/", name)]


@pytest.mark.parametrize("kernel", KERNELS, ids=folder)
def test_a_kernel_compiles_for_hopper(kernel, tmp_path):
    if not shutil.which("nvcc"):
        pytest.skip("nvcc is not on the path")
    # With torch's own flags, which switch off the implicit conversions of the half types.
    flags = ["-arch=sm_90", "-std=c++17", "--Werror", "all-warnings", *cpp_extension.COMMON_NVCC_FLAGS]
    command = ["nvcc", *flags, "-c", str(kernel), "-o", str(tmp_path / "kernel.o")]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=folder)
def test_a_wrapper_passes_the_compilers_syntax_check(wrapper, tmp_path):
    if not shutil.which("g++"):
        pytest.skip("g++ is not on the path")
    # The one header that a CPU build of torch lacks holds a few macros, all of which may be undefined.
    missing = tmp_path / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    missing.parent.mkdir(parents=True)
    missing.touch()
    folders = [*cpp_extension.include_paths(), str(tmp_path), str(cuda_headers())]
    flags = ["-std=c++20", "-Wall", "-Werror", "-fsyntax-only", *(f"-isystem{path}" for path in folders)]

    done = subprocess.run(["g++", *flags, str(wrapper)], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
