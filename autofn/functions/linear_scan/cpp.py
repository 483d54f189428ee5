"""The linear recurrence from the C++ extension: kernel.cpp, on CUDA kernel.cu."""

from autofn import extension

apply = extension.operator("linear_scan")
