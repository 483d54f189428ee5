"""Gradient reversal from the C++ extension: kernel.cpp, on every device."""

from autofn import extension

apply = extension.operator("gradient_reversal")
