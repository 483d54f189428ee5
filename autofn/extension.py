"""The compiled extension `autofn._C`: loaded at first use, or the reason why it is not there."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

# Absolute: the code that measures may be another copy of this package, and one process can load but one extension.
EXTENSION = "autofn._C"


@cache
def unavailable() -> str | None:
    """Loads the extension; the reason where that is impossible, else None."""
    import torch

    build = build_record()
    if importlib.util.find_spec(EXTENSION) is None:
        return "the C++ extension was not built: " + build.get(
            "reason", "install the package with pip, in an environment that has torch and a C++ compiler"
        )
    if build.get("arch") == "x86-64-v3" and "AVX" not in torch.backends.cpu.get_cpu_capability():
        return "the C++ extension was built for AVX2, which this processor lacks; rebuild with AUTOFN_ARCH=baseline"
    if build.get("torch") not in (None, torch.__version__):
        return f"the C++ extension was built for torch {build['torch']}, this is {torch.__version__}; reinstall autofn"
    try:
        importlib.import_module(EXTENSION)
    except ImportError as error:
        return f"the C++ extension cannot be loaded, reinstall autofn: {error}"
    return None


def build_record() -> dict[str, Any]:
    """What setup.py wrote of the build: torch, arch, sources, cuda, or the reason why there is no extension."""
    package = importlib.util.find_spec("autofn")
    folders = package.submodule_search_locations if package else None
    files = [Path(folder) / "_build.json" for folder in folders or ()]
    record: dict[str, Any] = next((json.loads(file.read_text()) for file in files if file.exists()), {})
    return record


def operator(name: str) -> Callable[..., Any]:
    """`torch.ops.autofn.<name>`. Raises NotImplementedError with the reason where the extension is not there."""
    import torch

    reason = unavailable()
    if reason:
        raise NotImplementedError(reason)
    if not hasattr(torch.ops.autofn, name):
        raise NotImplementedError(f"the C++ extension has no operator {name!r}; was it built before {name} was added?")
    found: Callable[..., Any] = getattr(torch.ops.autofn, name).default
    return found
