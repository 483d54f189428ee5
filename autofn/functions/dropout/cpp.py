"""Dropout from the C++ extension, whose backward draws the mask again: kernel.cpp, on CUDA kernel.cu."""

from autofn import extension

apply = extension.operator("dropout")
