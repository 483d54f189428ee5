"""The GEGLU gate from the C++ extension: kernel.cpp, on CUDA kernel.cu."""

from autofn import extension

apply = extension.operator("geglu")
