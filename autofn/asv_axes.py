"""What asv is told there is: the axes, and the Functions by their sources. Imports no torch.

asv takes the suites from the working tree for every commit. So which Functions exist is read from the folders beside
this file (from the spec files of somebody's own repository), never from the commit under test.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import origins
from .terms import DERIVED

FUNCTIONS = Path(__file__).parent / "functions"

# Axes and their values are only ever appended to: results of other commits are joined by them.
VARIANTS = ("eager", "compile", "native", "python", "fused", "cpp", "triton")
WORKLOADS = ("tiny", "small", "large")
DTYPES = ("float32", "bfloat16", "float64", "float16")
DEVICES = ("cpu", "cuda")
AXES = ("variant", "workload", "dtype", "device")

PHASES = ("forward", "backward", "forward_backward")
MEMORY = ("saved_bytes", "saved_new_bytes", "held_bytes")


@dataclass(frozen=True)
class Declared:
    """What the source of a Spec says. written: the variants that have a file or are named."""

    name: str
    version: str
    written: tuple[str, ...] = ()

    @property
    def axis(self) -> list[str]:
        """The kinds, then the further variants, such as python_combined."""
        further = tuple(f"{kind}_" for kind in VARIANTS)
        return [*VARIANTS, *sorted(variant for variant in self.written if variant.startswith(further))]


def names() -> list[str]:
    """The Functions of the working tree: the folders that hold an `__init__.py`."""
    return [found.name for found in declared()]


def declared(root: Path | None = None) -> list[Declared]:
    """The Functions of the package, or those that the pyproject.toml of somebody's repository names, by their name.

    Read from the sources: importing them would need torch. Raises ValueError where a name or version is no literal.
    """
    files = spec_files(root) if root else FUNCTIONS.glob("*/__init__.py")
    return sorted((found for file in files for found in _declared_in(file)), key=lambda found: found.name)


def spec_files(root: Path) -> list[Path]:
    """The files that hold the Specs of a repository. Raises LookupError for what it names and does not have."""
    found: list[Path] = []
    for text in origins.of_project(root / "pyproject.toml"):
        path = Path(text)
        if not text.endswith(".py") and not path.is_dir():
            stems = [folder / text.replace(".", os.sep) for folder in (root, root / "src")]
            path = next((each for stem in stems for each in (stem, stem.with_suffix(".py")) if each.exists()), path)
        inside = path / "__init__.py"
        files = [path] if path.is_file() else sorted([*path.glob("*/__init__.py"), *path.glob("*.py")])
        if not files:
            raise LookupError(f"{root / 'pyproject.toml'} names {text!r} for its specs, and there is no {path}")
        found += [file for file in files if file != inside or "Spec(" in file.read_text()]
    return found


def _declared_in(file: Path) -> Iterator[Declared]:
    folder = file.parent if file.name == "__init__.py" else None
    stems = [path.stem for path in sorted(folder.glob("*.py")) if path != file] if folder else []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Spec":
            said: dict[str | None, ast.expr] = dict(zip(POSITIONS, node.args, strict=False))
            said |= {each.arg: each.value for each in node.keywords}
            variants = said.get("variants")
            keys = variants.keys if isinstance(variants, ast.Dict) else []
            written = [*stems, *(str(key.value) for key in keys if isinstance(key, ast.Constant))]
            yield Declared(_literal(file, said, "name"), _literal(file, said, "version"), tuple(written))


# Where the arguments of a Spec stand that are given without their names.
POSITIONS = ("name", "reference", "make_inputs", "workloads", "tolerances", "version")


def _literal(file: Path, said: Mapping[str | None, ast.expr], what: str) -> str:
    found = said.get(what)
    if not isinstance(found, ast.Constant):
        who = file.parent.name if file.name == "__init__.py" else file.name
        raise ValueError(f"{who}: Spec({what}=...) must be a literal string, found none; asv reads it from the source")
    return str(found.value)


def _named(name: str, root: Path | None) -> Declared:
    """What the source says of one of them, that of the package without looking at the others."""
    found = declared(root) if root else _declared_in(FUNCTIONS / name / "__init__.py")
    return next(each for each in found if each.name == name)


def version(name: str, root: Path | None = None) -> str:
    """`Spec.version` of the working tree's Function."""
    return _named(name, root).version


def variants(name: str, root: Path | None = None) -> list[str]:
    """The variant axis: the kinds, then the further variants, such as python_combined."""
    return _named(name, root).axis


def written(name: str, root: Path | None = None) -> list[str]:
    """Of the variant axis, what the Function has written, and what every Function has."""
    found = _named(name, root)
    return [variant for variant in found.axis if variant in (*found.written, *DERIVED)]


def selected(patterns: Sequence[str], root: Path | None = None) -> list[str]:
    """The Functions of which asv runs something for `--bench` with these regular expressions; all without any."""
    return [
        found.name
        for found in declared(root)
        if not patterns or any(re.search(pattern, text) for text in _texts(found) for pattern in patterns)
    ]


def _texts(found: Declared) -> Iterator[str]:
    """What asv matches against: each benchmark with its parameters."""
    methods = [
        *(f"timing.{found.name}.{phase}_time" for phase in PHASES),
        *(f"memory.{found.name}.{metric}" for metric in MEMORY),
    ]
    for method, *case in itertools.product(methods, found.axis, WORKLOADS, DTYPES, DEVICES):
        yield f"{method}({', '.join(map(repr, case))})"
