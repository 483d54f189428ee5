"""Loads this copy of the package under the name `autofn_harness`, beside the `autofn` that is installed.

What measures must come from the working tree, else a better sampler looks like a regression of every commit; what is
measured comes from the build under test. asv's suites run this file by its path, and so do worker processes.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

NAME = "autofn_harness"


def load() -> ModuleType:
    """This copy of the package, as the module `autofn_harness`; its submodules are imported through that name."""
    if NAME in sys.modules:
        return sys.modules[NAME]
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{folder} is no package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    # harness.py MODULE FUNCTION ARGUMENT...: calls a function of this copy with strings.
    load()
    getattr(importlib.import_module(f"{NAME}.{sys.argv[1]}"), sys.argv[2])(*sys.argv[3:])
