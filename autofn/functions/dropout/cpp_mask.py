"""Dropout from the C++ extension that keeps the mask, one bit an element: kernel.cpp, on CUDA kernel.cu."""

from autofn import extension

apply = extension.operator("dropout_mask")
