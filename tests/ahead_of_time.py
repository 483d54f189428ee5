"""Compiles the Triton kernels of the Functions named for sm_90, without a GPU; prints what came of each as JSON.

A process of its own, for Triton decides when it is imported whether kernels are compiled or interpreted.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from autofn import registry


def modules(function):
    """The triton variants of a Function."""
    names = [found.name for found in registry.variants(function) if found.kind == "triton"]
    return [importlib.import_module(f"autofn.functions.{function}.{name}") for name in names]


def compiled(kernel):
    """The size of the cubin in bytes, or what went wrong."""
    source = ASTSource(kernel.function, dict(kernel.signature), dict(kernel.constants))
    try:
        found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": kernel.num_warps})
    except Exception:  # whatever the compiler raises is what this process was started to find out
        return traceback.format_exc()
    return len(found.asm["cubin"])


def kernels(module):
    """The names of a module's own kernels, declared or not."""
    return [name for name, value in vars(module).items() if name.endswith("_kernel") and hasattr(value, "arg_names")]


def examine(function):
    """The kernels that there are, and for each declared compilation its kernel, signature and outcome."""
    found = modules(function)
    return {
        "kernels": [name for module in found for name in kernels(module)],
        "compilations": [
            {"kernel": each.function.__name__, "signature": dict(each.signature), "outcome": compiled(each)}
            for module in found
            for each in module.KERNELS
        ],
    }


if __name__ == "__main__":
    print(json.dumps({function: examine(function) for function in sys.argv[1:]}))
