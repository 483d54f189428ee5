"""Where Functions come from: the package's own folders, and what somebody brings.

Somebody's own are named by AUTOFN_SPECS (which `--spec` sets, so that all processes of a run see it), else by
`specs = [...]` under `[tool.autofn]` in the pyproject.toml of the root: a Python file, a folder, or a module. The root
is the working folder, or AUTOFN_ROOT, a copy of a repository as it was at some commit. Installed packages bring theirs
by the entry point group `autofn.functions`.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from . import sources

if TYPE_CHECKING:
    from .spec import Spec

ENVIRONMENT = "AUTOFN_SPECS"
GROUP = "autofn.functions"
SOURCES = ("*.py", "*.cpp", "*.h", "*.cu", "*.cuh")


class Origin(Protocol):
    """Some Functions, by name, with all that the registry wants to know of each."""

    def names(self) -> tuple[str, ...]: ...

    def declaration(self, name: str) -> Spec: ...

    def documentation(self, name: str) -> str: ...

    def variants(self, name: str) -> tuple[str, ...]:
        """The names of those that are written; `eager` and `compile` are derived."""
        ...

    def load(self, name: str, variant: str) -> Callable[..., Any]: ...

    def folder(self, name: str) -> Path | None:
        """Where the Function's files lie, if it has a folder of its own."""
        ...

    def file(self, name: str) -> Path | None:
        """Where its Spec is written."""
        ...

    def files(self) -> Iterator[Path]:
        """All that the Functions are made of."""
        ...


@dataclass(frozen=True)
class Folders:
    """Functions that are folders of one package: Spec in `__init__.py`, one variant a file with its `apply`."""

    package: str
    path: Path

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(path.parent.name for path in self.path.glob("*/__init__.py")))

    def declaration(self, name: str) -> Spec:
        module = self._module(name)
        if not hasattr(module, "SPEC"):
            raise ValueError(f"{name}: {self.path / name / '__init__.py'} must define SPEC; it does not")
        found: Spec = module.SPEC
        if found.name != name:
            raise ValueError(f"{name}: the Spec's name must be its folder's, got {found.name!r}")
        return found

    def documentation(self, name: str) -> str:
        return (self._module(name).__doc__ or "").strip()

    def variants(self, name: str) -> tuple[str, ...]:
        return (*(path.stem for path in sorted((self.path / name).glob("*.py"))), *self.declaration(name).variants)

    def load(self, name: str, variant: str) -> Callable[..., Any]:
        declared = self.declaration(name).variants
        if variant in declared:
            return called(declared[variant])
        module = importlib.import_module(f"{self.package}.{name}.{variant}")
        if not hasattr(module, "apply"):
            raise AttributeError(f"{name} ({variant}): {variant}.py must export `apply`, the callable; it does not")
        apply: Callable[..., Any] = module.apply
        return apply

    def folder(self, name: str) -> Path | None:
        return self.path / name

    def file(self, name: str) -> Path | None:
        return self.path / name / "__init__.py"

    def files(self) -> Iterator[Path]:
        for kind in SOURCES:
            yield from self.path.rglob(kind)

    def _module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name}")


class OwnFolders(Folders):
    """Folders of somebody's own: one that cannot be read is told (see `broken`), and the others go on."""

    def names(self) -> tuple[str, ...]:
        return tuple(name for name in super().names() if self._is_read(name))

    def _is_read(self, name: str) -> bool:
        file = self.path / name / "__init__.py"
        if str(file) in _BROKEN or "Spec(" not in file.read_text(errors="replace"):
            return False
        try:
            self.declaration(name)
        except ValueError as error:
            _BROKEN[str(file)] = str(error)
            return False
        return True

    def _module(self, name: str) -> ModuleType:
        try:
            return super()._module(name)
        except Exception as error:  # a user's file may raise anything
            raise ValueError(f"{self.path / name} cannot be imported: {sources.told(error)}") from error


@dataclass(frozen=True)
class Declared:
    """Functions whose Specs are objects of one module, each with its variants by name."""

    module: ModuleType

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._specs()))

    def declaration(self, name: str) -> Spec:
        return self._specs()[name]

    def documentation(self, name: str) -> str:
        of_module = self.module.__doc__ if len(self._specs()) == 1 else None
        return (of_module or self.declaration(name).reference.__doc__ or "").strip()

    def variants(self, name: str) -> tuple[str, ...]:
        return tuple(self.declaration(name).variants)

    def load(self, name: str, variant: str) -> Callable[..., Any]:
        return called(self.declaration(name).variants[variant])

    def folder(self, name: str) -> Path | None:
        return None

    def file(self, name: str) -> Path | None:
        return Path(self.module.__file__) if self.module.__file__ else None

    def files(self) -> Iterator[Path]:
        file = self.file("")
        if file is not None:
            yield file

    def _specs(self) -> dict[str, Spec]:
        from .spec import Spec

        found = [value for value in vars(self.module).values() if isinstance(value, Spec)]
        return {each.name: each for each in found}


def called(variant: Any) -> Callable[..., Any]:
    """What is called: of an autograd.Function its `apply`; a word such as "my_ops.triton:swish" names one of these.

    Raises as `sources.named`, ValueError for what cannot be called, ModuleNotFoundError for what its module needs and
    is not installed.
    """
    try:
        found = sources.named(variant) if isinstance(variant, str) else variant
    except ValueError as error:
        if not isinstance(error.__cause__, ModuleNotFoundError):
            raise
        raise ModuleNotFoundError(str(error), name=error.__cause__.name) from error
    apply = getattr(found, "apply", None) if isinstance(found, type) else found
    if not callable(apply):
        raise ValueError(f"a variant must be a callable, a torch.autograd.Function or the name of one, got {found!r}")
    return apply


# What could not be read of what is asked for, by file, folder or module: why. The others go on without it.
_BROKEN: dict[str, str] = {}


def own() -> tuple[Origin, ...]:
    """What AUTOFN_SPECS or the root's pyproject.toml names, without what is broken.

    Raises ValueError where all of it is, with the reasons.
    """
    texts = asked()
    found = tuple(origin for text in texts for origin in _working(text) if origin.names())
    if texts and not found:
        raise ValueError("\n".join(_BROKEN.values()))
    return found


def broken() -> dict[str, str]:
    """By file, folder or module, why it could not be read, of what was asked for until now."""
    return dict(_BROKEN)


def _working(text: str) -> tuple[Origin, ...]:
    if text in _BROKEN:
        return ()
    try:
        return origins_of(text)
    except (LookupError, ValueError) as error:
        _BROKEN[text] = str(error)
        return ()


def forget() -> None:
    """Whatever was found or missed is looked for anew."""
    _BROKEN.clear()
    for cached in (origins_of, installed, of_project):
        cached.cache_clear()


def asked() -> tuple[str, ...]:
    """The files, folders and modules that are named."""
    named = os.environ.get(ENVIRONMENT)
    return tuple(named.split(os.pathsep)) if named else of_project(sources.root() / "pyproject.toml")


def ask(texts: list[str]) -> None:
    """Names them for this process and all that it starts; a path as an absolute one."""
    os.environ[ENVIRONMENT] = os.pathsep.join(str(Path(text).resolve()) if _is_path(text) else text for text in texts)


@cache
def of_project(file: Path) -> tuple[str, ...]:
    """What a pyproject.toml names. Raises ValueError where it says something else than names."""
    if not file.is_file():
        return ()
    try:
        said = tomllib.loads(file.read_text()).get("tool", {}).get("autofn", {}).get("specs", [])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: cannot be read as TOML: {error}") from error
    if not isinstance(said, list) or not all(isinstance(text, str) for text in said):
        raise ValueError(f"{file}: specs under [tool.autofn] must be a list of files, folders or modules, got {said!r}")
    folder = file.parent
    return tuple(str(folder / text) if _is_path(text) or (folder / text).is_dir() else text for text in said)


@cache
def installed() -> tuple[Origin, ...]:
    """What installed packages bring by entry points. One that cannot be imported is an error that names it."""
    return tuple(
        origin for point in metadata.entry_points(group=GROUP) for origin in origins_of(point.value.partition(":")[0])
    )


@cache
def origins_of(text: str) -> tuple[Origin, ...]:
    """The origins that a file, folder or module is. Raises LookupError where there is none, ValueError for no Spec."""
    if _is_path(text) and Path(text).is_dir():
        return tuple(_of_folder(Path(text)))
    module = sources.module_of(text)
    found = _of_module(module)
    if not found.names():
        raise ValueError(f"{text}: holds no Spec; see autofn.Spec for what one declares")
    return (found,)


def _of_module(module: ModuleType) -> Origin:
    """A package of folders, or a module that holds Specs."""
    declared = Declared(module)
    if not declared.names() and hasattr(module, "__path__"):
        return OwnFolders(module.__name__, Path(next(iter(module.__path__))))
    return declared


def _of_folder(folder: Path) -> Iterator[Origin]:
    """The Functions that are its subfolders, and those of the files in it that declare some."""
    folder = folder.resolve()
    if any(folder.glob("*/__init__.py")):
        if not folder.name.isidentifier():
            raise ValueError(f"{folder}: a folder of Functions is imported, so its name must be a Python name")
        if str(folder.parent) not in sys.path:
            sys.path.append(str(folder.parent))
        yield OwnFolders(folder.name, folder)
        return
    files = [file for file in sorted(folder.glob("*.py")) if "Spec(" in file.read_text(errors="replace")]
    if not files:
        raise ValueError(f"{folder}: holds no Spec, neither in a subfolder's __init__.py nor in a .py file")
    for file in files:
        yield from _working(str(file))


def _is_path(text: str) -> bool:
    return text.endswith(".py") or os.sep in text or Path(text).is_dir()
