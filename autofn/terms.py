"""The terms that all parts share: kinds of variants, devices, phases, and what is said of a name that is none."""

from __future__ import annotations

import difflib
import importlib
import keyword
import pkgutil
import re
from collections.abc import Iterable
from functools import cache

from .records import is_ceiling

KINDS = ("eager", "compile", "native", "python", "fused", "cpp", "triton")
DERIVED = ("eager", "compile")
COMPILED = ("compile", "fused")
DEVICES = ("cpu", "cuda")
PHASES = ("forward", "backward", "forward_backward", "inference")


def kind_of(variant: str) -> str | None:
    """The kind of a written variant by its name, None for what is no variant's name: "cpp_mask" is of the kind cpp."""
    kinds = "|".join(kind for kind in KINDS if kind not in DERIVED)
    match = re.fullmatch(rf"({kinds})(_\w+)?", variant)
    return match[1] if match else None


def check_name(name: str) -> None:
    """Raises ValueError for what no Function can be called."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"Spec: a name is lower case, digits and underscores, got {name!r}")
    if is_ceiling(name):
        raise ValueError(f"Spec: the name {name!r} is taken: results of it are what the machine reaches")
    if name in taken():
        raise ValueError(f"Spec: the name {name!r} is taken: a Function is called as autofn.NAME, and that is not free")


@cache
def taken() -> frozenset[str]:
    """The names that no Function can have, for it is called as an attribute of the package: `autofn.exp(x)`."""
    package = importlib.import_module(f"{__package__}")
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    return frozenset({*keyword.kwlist, *package.__all__, *vars(package), *modules})


def unknown(what: str, given: str, known: Iterable[str]) -> LookupError:
    """The error for a name that does not exist: what there is, and the near ones first."""
    known = list(known)
    near = difflib.get_close_matches(given, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return LookupError(f"{what} {given!r}; {hint}there {'is' if len(known) == 1 else 'are'} {', '.join(known)}")
