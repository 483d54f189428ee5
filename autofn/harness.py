"""Loads this copy of the package under the name `autofn_harness`, beside the `autofn` of the commit under test.

What measures must come from the working tree, else a better sampler looks like a regression of every commit; what is
measured comes from the commit. asv's suites run this file by its path, and so does the worker process.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
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
    load()
    importlib.import_module(f"{NAME}.asv_worker").work(json.loads(sys.argv[1]))
