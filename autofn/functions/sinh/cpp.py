"""The hyperbolic sine from the C++ extension: kernel.cpp, on CUDA kernel.cu."""

from autofn import extension

apply = extension.operator("sinh")
