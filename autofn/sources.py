"""`pkg.module:NAME` and `path/to/file.py:NAME`: what a user names, as the object itself."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from .terms import unknown

ROOT = "AUTOFN_ROOT"
PACKAGE = Path(__file__).parent
STDLIB = sysconfig.get_path("stdlib")

# Modules that somebody named.
_LOADED: set[str] = set()


def named(text: str) -> Any:
    """The object. Raises LookupError for no such module, file or name, ValueError where it cannot be loaded."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise ValueError(f"{text!r}: must be pkg.module:NAME or path/to/file.py:NAME")
    found: Any = module_of(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise unknown(
                f"{place} has no", part, [each for each in dir(found) if not each.startswith("_")] or ["nothing"]
            )
        found = getattr(found, part)
    return found


def is_source(text: str) -> bool:
    """Whether a word names somebody's own code, not a Function of the registry."""
    return ":" in text


def fingerprint() -> str:
    """A digest of the files that `named` has loaded, and of all modules below the working folder."""
    here = Path.cwd()
    digest = hashlib.sha256()
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not file or not file.endswith(".py"):
            continue
        beside = Path(file).is_relative_to(here) and "site-packages" not in file
        if beside or name in _LOADED:
            digest.update(f"{name}\n".encode() + Path(file).read_bytes())
    return digest.hexdigest()


def module_of(place: str) -> ModuleType:
    """The module of a dotted name or of a path that ends in .py. Raises as `named`."""
    _see_the_root()
    if place.endswith(".py"):
        return _file(Path(place))
    try:
        _LOADED.add(place)
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise LookupError(
                f"there is no module {error.name!r}; they are looked for in {root()} and in this Python's packages"
            ) from error
        raise ValueError(f"{place} cannot be imported: it needs {error.name!r}, which is not installed") from error
    except Exception as error:  # a user's module may raise anything
        raise ValueError(f"{place} cannot be imported: {told(error)}") from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise LookupError(f"there is no file {path}")
    # One name a file: two files of one name must not meet. Dynamo imports the module that defines a Function by name.
    name = f"{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded as Python")
    _LOADED.add(name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # what lies beside the file can be imported by it
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # a user's file may raise anything
        del sys.modules[name]
        raise ValueError(f"{path} cannot be imported: {told(error)}") from error
    return module


def told(error: BaseException) -> str:
    """An exception, and the last line of somebody's own code: "RuntimeError: wrong (mine.py:3: `raise ...`)"."""
    if isinstance(error, SyntaxError) and error.filename:
        place: tuple[str, int | None, str | None] | None = (error.filename, error.lineno, error.text)
        message = error.msg
    else:
        frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_own(each.filename)]
        place = (frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else None
        message = str(error)
    said = f"{type(error).__name__}: {message}"
    if place is None:
        return said
    file, line, text = place
    return f"{said} ({_short(file)}:{line}: `{(text or '').strip()}`)"


def _is_own(file: str) -> bool:
    """Whether a file is neither Python's, nor an installed package's, nor of this package but a Function."""
    path = Path(file)
    if not path.is_file() or "site-packages" in path.parts or path.is_relative_to(STDLIB):
        return False
    return not path.is_relative_to(PACKAGE) or path.is_relative_to(PACKAGE / "functions")


def _short(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def root() -> Path:
    """Where somebody's own lies: the working folder, or the copy of a repository that is measured."""
    return Path(os.environ.get(ROOT) or Path.cwd())


def _see_the_root() -> None:
    if root() != Path.cwd() or "" not in sys.path:
        folders = [str(folder) for folder in (root(), root() / "src") if folder.is_dir()]
        sys.path[:0] = [folder for folder in folders if folder not in sys.path]
