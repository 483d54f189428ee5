"""How the C++ kernels are compiled, by setup.py and at first use alike. Imports nothing of the package."""

from __future__ import annotations

ARCHITECTURES = ("x86-64-v3", "native", "baseline")


def compile_flags(arch: str) -> list[str]:
    """Of one of ARCHITECTURES. at::vec takes its width from the AVX2 macros; without them it is plain loops.

    Functions begin on cache lines: else a kernel that grows moves the code of all that the linker lays behind it within
    their lines, and `autofn compare` finds them 1 % faster or slower.
    """
    avx2 = ["-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"]
    flags = {"x86-64-v3": ["-march=x86-64-v3", *avx2], "native": ["-march=native", *avx2], "baseline": []}[arch]
    how = ["-O3", "-falign-functions=64", "-fopenmp", "-fvisibility=hidden", "-g0"]
    return [*how, "-Wall", "-Wno-unknown-pragmas", *flags]
