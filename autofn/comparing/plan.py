"""Which cases two builds are compared in: those of Functions whose code differs, unless somebody names others."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..measure.rows import Arm, Group
from ..origins import SOURCES
from ..terms import COMPILED, DERIVED, kind_of, unknown
from .builds import Side

# What every Function runs through, beside its own folder.
SHARED = (
    "csrc", "arithmetic.py", "compile_flags.py", "compiled.py", "extension.py", "refusal.py", "registry.py",
    "require.py", "spec.py", "triton_kernels.py",
)  # fmt: skip
# PyTorch's own code, the same in both builds unless their torch differs.
NOT_OURS = (*DERIVED, "native")

Described = Mapping[str, Mapping[str, Any]]
"""By Function, what the installed package of a side says of it; {} where it lacks it."""


@dataclass(frozen=True)
class Pair:
    """A group that both sides are measured in. missing: variants of the head alone, or of the base alone, and why."""

    group: Group
    arms: tuple[Arm, ...]
    missing: tuple[tuple[str, str], ...] = ()


def differing(base: Side, head: Side, functions: Sequence[str]) -> list[str]:
    """The Functions whose code differs. All of them where what they share does, or where a side is a Python."""
    if base.folder is None or head.folder is None:
        return list(functions)
    if _shared(base.folder, base.own) != _shared(head.folder, head.own):
        return list(functions)
    before, after = (_functions(folder, side.own) for folder, side in ((base.folder, base), (head.folder, head)))
    return [name for name in functions if _digest(before, [name]) != _digest(after, [name])]


def _functions(folder: Path, own: str | None) -> Path:
    return folder / "autofn" / "functions" if own is None else folder / own


def _shared(folder: Path, own: str | None) -> str:
    """A digest of what Functions run through: in somebody's repository, all that is no Function's folder."""
    if own is None:
        return _digest(folder / "autofn", SHARED)
    outside = {file for kind in SOURCES for file in folder.rglob(kind)}
    if own:
        outside -= {file for kind in SOURCES for file in (folder / own).glob(f"*/**/{kind}")}
    return _digest(folder, sorted(str(file.relative_to(folder)) for file in outside))


def edited(base: Path, head: Path, function: str, variants: Sequence[str]) -> list[str]:
    """The variants of a Function of the package whose code differs between two of its folders.

    A variant is made of its own file and of what that imports from beside it, one in C++ of all that is compiled. What
    differs in the Spec and what that imports, the reference among it, or in the Python that all run through, concerns
    all of them. (Of `setup.py` nothing is known: a folder of packages has none.)
    """
    return [variant for variant in variants if _code(base, function, variant) != _code(head, function, variant)]


def _code(folder: Path, function: str, variant: str) -> str:
    package = folder / "autofn"
    mine = Path("functions") / function
    modules = _imported(package / mine, "__init__") | _imported(package / mine, variant)
    files = [mine / f"{module}.py" for module in modules]
    files += [Path(name) for name in SHARED if name.endswith(".py")]
    if kind_of(variant) == "cpp":
        compiled = [file for kind in SOURCES if kind != "*.py" for file in (package / mine).rglob(kind)]
        files += [Path("csrc"), *(file.relative_to(package) for file in compiled)]
    return _digest(package, sorted(map(str, files)))


def _imported(folder: Path, module: str) -> set[str]:
    """The module, and those beside it that it needs, however far away."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = folder / f"{name}.py"
        if name not in found and file.exists():
            found.add(name)
            waiting += _neighbours(file.read_text())
    return found


def _neighbours(text: str) -> list[str]:
    """What a module imports from its own package; of one that is not Python nothing can be told."""
    try:
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level == 1]
    except SyntaxError:
        return []
    return [name for node in nodes for name in ([node.module] if node.module else [one.name for one in node.names])]


def _digest(folder: Path, names: Sequence[str]) -> str:
    """Of the sources of files and folders below `folder`."""
    found = hashlib.sha256()
    for name in names:
        path = folder / name
        files = [path] if path.is_file() else sorted(file for kind in SOURCES for file in path.rglob(kind))
        for file in files:
            found.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    return found.hexdigest()


def pairs(
    base: Described,
    head: Described,
    functions: Sequence[str],
    *,
    variants: Sequence[str] | None = None,
    workloads: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = ("float32",),
    device: str = "cpu",
) -> list[Pair]:
    """A pair for each Function, workload and dtype that both sides have. None means all.

    variants: by default those written by hand: what is PyTorch's own is no different. Raises LookupError for a name
    that no Function has.
    """
    both = [name for name in functions if base[name] and head[name]]
    if not both:
        return []
    _must_exist("variant", variants, [name for of in both for name, _ in head[of]["variants"] + base[of]["variants"]])
    _must_exist("workload", workloads, [name for of in both for name in head[of]["workloads"]])
    _must_exist("dtype", dtypes, [name for of in both for name in head[of]["dtypes"]])
    return [
        Pair(Group(name, workload, dtype, device), *_arms(base[name], head[name], variants))
        for name in both
        if base[name]["version"] == head[name]["version"]
        for dtype in head[name]["dtypes"]
        if (not dtypes or dtype in dtypes) and dtype in base[name]["dtypes"]
        for workload in head[name]["workloads"]
        if (not workloads or workload in workloads) and workload in base[name]["workloads"]
    ]


def incomparable(base: Described, head: Described, functions: Sequence[str]) -> dict[str, str]:
    """The Functions that one side lacks or whose inputs changed, each with the reason."""
    found = {}
    for name in functions:
        if not base[name] and not head[name]:
            raise unknown("there is no Function", name, [of for of in functions if base[of] or head[of]] or ["none"])
        if not base[name] or not head[name]:
            found[name] = f"the {'head' if base[name] else 'base'} has no Function {name}"
        elif base[name]["version"] != head[name]["version"]:
            found[name] = (
                f"its inputs changed: version {base[name]['version']} at the base, {head[name]['version']} at the head"
            )
    return found


def _arms(
    base: Mapping[str, Any], head: Mapping[str, Any], chosen: Sequence[str] | None
) -> tuple[tuple[Arm, ...], tuple[tuple[str, str], ...]]:
    kinds = {**dict(map(tuple, base["variants"])), **dict(map(tuple, head["variants"]))}
    wanted = [name for name, kind in kinds.items() if (name in chosen if chosen else kind not in NOT_OURS)]
    lacking = {
        name: f"the {side} has no variant {name}"
        for side, found in (("base", base), ("head", head))
        for name in wanted
        if name not in dict(map(tuple, found["variants"]))
    }
    arms = tuple(Arm(name, kinds[name] in COMPILED) for name in wanted if name not in lacking)
    return arms, tuple(lacking.items())


def _must_exist(what: str, given: Sequence[str] | None, known: Sequence[str]) -> None:
    for name in given or ():
        if name not in known:
            raise unknown(f"there is no {what}", name, sorted(set(known)))
