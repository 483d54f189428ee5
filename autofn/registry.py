"""Which Functions and variants exist, and why one cannot run here."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import origins, promises, sources
from .terms import COMPILED, DERIVED, KINDS, kind_of, unknown

if TYPE_CHECKING:
    from .spec import Spec

FOLDER = Path(__file__).parent / "functions"


@dataclass(frozen=True)
class Variant:
    """One implementation of a Function: `python_combined` is a second one of the kind `python`."""

    function: str
    name: str
    kind: str


def names() -> tuple[str, ...]:
    """The Functions that a command means when none is named, in alphabetical order.

    Somebody's own (see `origins`) where there are any, else the built-in ones and those of installed packages.
    """
    # A copy of a repository without any is one without any: the built-in ones are not its own.
    others = () if os.environ.get(sources.ROOT) else (_built_in(), *origins.installed())
    return tuple(sorted(name for origin in origins.own() or others for name in origin.names()))


def every_name() -> tuple[str, ...]:
    """All Functions that can be named."""
    return tuple(sorted(_by_name()))


def _built_in() -> origins.Origin:
    return origins.Folders(f"{__package__}.functions", FOLDER)


def _by_name() -> dict[str, origins.Origin]:
    """Each Function's origin. Raises ValueError for one name in two of them."""
    found: dict[str, origins.Origin] = {}
    for origin in (_built_in(), *origins.installed(), *origins.own()):
        for name in origin.names():
            if name in found:
                raise ValueError(f"there are two Functions of the name {name!r}, in {found[name]} and in {origin}")
            found[name] = origin
    return found


def _origin(name: str) -> origins.Origin:
    found = _by_name()
    if name not in found:
        raise unknown("there is no Function", name, names())
    return found[name]


def folder(name: str) -> Path | None:
    """The folder that a Function's files lie in, None for one that is declared in a file with others."""
    return _origin(name).folder(name)


def file(name: str) -> Path | None:
    """The file that a Function's Spec is written in, None for a module without one."""
    return _origin(name).file(name)


def is_built_in(name: str) -> bool:
    """Whether the Function is one of the package's own, not somebody's."""
    return name in _built_in().names()


def fingerprint() -> str:
    """A digest of the package's code and extension: what one state of it gave is not mixed with what another gives."""
    found = hashlib.sha256()
    folders = (Path(__file__).parent, FOLDER)
    files = {path for folder in folders for suffix in ("py", "so") for path in folder.rglob(f"*.{suffix}")}
    for path in sorted({*files, *(path for origin in origins.own() for path in origin.files())}):
        found.update(f"{path}\n".encode() + path.read_bytes())
    return found.hexdigest()


@cache
def spec(name: str) -> Spec:
    """The Spec of a Function. Raises LookupError for an unknown name, ValueError where folder and Spec disagree."""
    return _origin(name).declaration(name)


def summary(name: str) -> str:
    """The first line of the Function's docstring: its formula."""
    return next(iter(documentation(name).splitlines()), "")


def documentation(name: str) -> str:
    """The Function's whole docstring: math, shapes, source, what is saved and why."""
    return _origin(name).documentation(name)


@cache
def variants(name: str) -> tuple[Variant, ...]:
    """The variants of a Function, in the order of KINDS: the derived ones, then those that are written."""
    written = _origin(name).variants(name)
    found = [Variant(name, kind, kind) for kind in DERIVED]
    found += [Variant(name, each, kind) for each in dict.fromkeys(written) if (kind := kind_of(each))]
    promises.must_name_variants(spec(name).promises, name, written)
    there = [variant for variant in found if variant.name not in spec(name).without]
    return tuple(sorted(there, key=lambda variant: (KINDS.index(variant.kind), variant.name)))


def variant(function: str, name: str) -> Variant:
    """One variant by name. Raises LookupError where the Function has none of that name."""
    for found in variants(function):
        if found.name == name:
            return found
    if name in spec(function).without:
        raise LookupError(f"{function} has no variant {name!r}: {spec(function).without[name]}")
    raise unknown(f"{function} has no variant", name, (found.name for found in variants(function)))


def load(function: str, name: str, device: str = "cpu") -> Callable[..., Any]:
    """The variant as a callable. Raises NotImplementedError with the reason where it cannot run here."""
    found = variant(function, name)
    reason = _missing_package(found) or _missing_tool(found, device)
    if reason:
        raise NotImplementedError(f"{function} ({name}): {reason}")
    if found.kind == "eager":
        return spec(function).reference
    if found.kind == "compile":
        from .compiled import graph

        return graph(spec(function).reference)
    try:
        return _origin(function).load(function, name)
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking == __name__.partition(".")[0]:
            raise
        raise NotImplementedError(f"{function} ({name}): needs {lacking!r}, which is not installed") from error


def unavailable(function: str, name: str, device: str = "cpu") -> str | None:
    """Why a variant cannot run here, or None where it can."""
    try:
        load(function, name, device)
    except NotImplementedError as error:
        return str(error).removeprefix(f"{function} ({name}): ")
    except Exception as error:  # a variant's file may hold anything; listing the others must go on
        return f"cannot be loaded: {sources.told(error)}"
    return None


def is_interpreted() -> bool:
    """Whether Triton's kernels run in its interpreter, so on the CPU too: to be checked, not to be measured."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _missing_tool(found: Variant, device: str) -> str | None:
    import torch

    only = spec(found.function).only_on.get(found.name)
    if only and only != device and not (found.kind == "triton" and is_interpreted()):
        return f"runs on {only} only, not on {device}"
    if device == "cuda" and not torch.cuda.is_available():
        return "no CUDA device"
    kernel = FOLDER / found.function / "kernel.cu"
    if found.kind == "cpp" and device == "cuda" and kernel.exists():
        from .extension import build_record

        if not build_record().get("cuda"):
            return "the C++ extension was built without CUDA kernels"
    if found.kind in COMPILED and device == "cpu":
        compiler = os.environ.get("CXX", "g++").split()[-1]
        if not shutil.which(compiler):
            return f"torch.compile needs a C++ compiler for the CPU and found no {compiler!r}; set CXX or install g++"
    return None


def _missing_package(found: Variant) -> str | None:
    """What the Spec's `variants` require and is lacking, and how to get it; PyTorch's own require nothing."""
    declared = spec(found.function)
    if found.name not in declared.variants or found.kind == "native":
        return None
    for package in declared.requires:
        name, _, wanted = package.partition("==")
        there = _version(name)
        if there is None:
            return f"needs {package}, which is not installed: pip install {package}"
        if wanted and there != wanted:
            return (
                f"needs {package}, and {there} is installed: pip install {package}, or say {name}=={there} in the "
                "Spec's `requires`"
            )
    return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
