"""autofn: is a custom torch.autograd.Function right, fast and frugal, and does it stay so?

Every Function is a call too, `autofn.clipped_relu(x, 6.0)`: see `calls`.

The package's modules import each other relatively, so that the asv suites can load the measuring code of the working
tree beside the package of the commit under test (see `benchmarks/__init__.py`).
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .benching import bench
    from .checks import check
    from .comparing import compare
    from .fleets import fleet
    from .reporting import report
    from .spec import Spec, Tolerance, Workload
    from .tracing import trace

__version__ = "0.1.0"
__all__ = ["Spec", "Tolerance", "Workload", "bench", "check", "compare", "fleet", "report", "trace"]

# Loaded at first use: importing the package must cost next to nothing beyond torch.
_HOME = {
    "Spec": "spec",
    "Tolerance": "spec",
    "Workload": "spec",
    "bench": "benching",
    "check": "checks",
    "compare": "comparing",
    "fleet": "fleets",
    "report": "reporting",
    "trace": "tracing",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(_module(_HOME[name]), name)
    # `from . import name` asks here before it looks for a module, and what follows imports modules itself.
    is_module = importlib.util.find_spec(f"{__name__}.{name}") is not None
    try:
        if not name.startswith("_") and not is_module and name in _module("registry").every_name():
            return _module("calls").function(name)
    except ValueError as error:
        # Spec files that cannot be read: whoever asks all modules for a name, as pickle does, takes this error alone.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, *_module("registry").every_name()])


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __name__)
