"""What `autofn new` and `autofn init` write: a Function's folder that passes check at once, and what runs on it.

Imports no torch.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2

from . import origins, registry
from .records import write_atomically
from .repository import run_git, top
from .terms import check_name

TEMPLATES = Path(__file__).parent / "templates"
FUNCTION = ("__init__.py", "reference.py", "python.py", "fused.py", "cpp.py", "kernel.cpp")
# Where `init` writes what, by template.
REPOSITORY = {
    "asv.conf.json": "asv.conf.json",
    "benchmarks.py": "benchmarks/__init__.py",
    "timing.py": "benchmarks/timing.py",
    "memory.py": "benchmarks/memory.py",
    "comparison.py": "reports/comparison.py",
    "commits.py": "reports/commits.py",
    "workflow.yml": ".github/workflows/autofn.yml",
    "gitignore": ".gitignore",
}
SETTING = '[tool.autofn]\nspecs = ["{folder}"]\n'


@dataclass(frozen=True)
class Written:
    """The files that were written, and what is left to be done by hand."""

    files: list[Path]
    left: list[str]


def new(name: str, root: Path = Path(), into: Path | None = None) -> Written:
    """Writes the folder of a Function of this name: in a checkout of autofn among its own, else below `into`.

    into: a folder of Functions, by default the first one that pyproject.toml names, else `functions`. Raises ValueError
    for a name that no Function can have, and for files that are there already: none is written then.
    """
    check_name(name)
    if name in registry.every_name():
        raise ValueError(f"new: there is a Function {name!r} already, in {registry.folder(name) or 'a file of Specs'}")
    if into is None and is_checkout(root):
        return Written(write(_function(name, registry.FOLDER)), _left_in_a_checkout(name))
    folder = root / (into or _folder_of_functions(root))
    if not folder.name.isidentifier():
        raise ValueError(f"new: {folder} must have a Python name, for it is imported")
    files = {**_function(name, folder), folder / name / f"test_{name}.py": rendered("function/test.py", name=name)}
    if not (folder / "__init__.py").exists():
        files[folder / "__init__.py"] = '"""Functions of our own: a folder each."""\n'
    setting = SETTING.format(folder=folder.relative_to(root) if folder.is_relative_to(root) else folder)
    project = root / "pyproject.toml"
    if not project.exists():
        files[project] = setting
    named = [Path(text).resolve() for text in origins.asked()]
    left = [] if project in files or folder.resolve() in named else [f"add to {project}:\n{setting}"]
    return Written(write(files), [*left, f"autofn check {name}", "pytest --autofn"])


def init(root: Path = Path()) -> Written:
    """Writes what asv, reports and a workflow on GitHub need, into a repository that has none: no file over another.

    Raises ValueError in a checkout of autofn, and where pyproject.toml names no spec files, LookupError outside a
    repository of git.
    """
    if is_checkout(root):
        raise ValueError("init: this is a checkout of autofn, which has all of it")
    if top(root).resolve() != root.resolve():
        raise ValueError(f"init: run it at the top of the repository, {top(root)}")
    if not origins.of_project((root / "pyproject.toml").resolve()):
        raise ValueError("init: pyproject.toml names no spec files; `autofn new NAME` writes one, docs/own.md says how")
    words = {"project": root.resolve().name, "branch": _branch(root)}
    files = {root / path: rendered(f"repository/{template}", **words) for template, path in REPOSITORY.items()}
    there = [path for path in files if path.exists()]
    written = write({path: text for path, text in files.items() if path not in there})
    left = [f"{path} is there already and was left as it is" for path in there if path.name != ".gitignore"]
    if root / ".gitignore" in there:
        left.append(f"see that .gitignore holds {' '.join(files[root / '.gitignore'].split())}")
    then = ["git add and commit", "asv machine --yes && AUTOFN_PROFILE=quick asv run", "autofn report"]
    return Written(written, [*left, *then])


def _branch(root: Path) -> str:
    """The branch that is checked out, whose history asv publishes; "main" on a detached head."""
    try:
        return run_git(root, "symbolic-ref", "--quiet", "--short", "HEAD")
    except subprocess.CalledProcessError:
        return "main"


def is_checkout(root: Path) -> bool:
    """Whether `root` is a checkout of autofn itself, whose Functions are those of the package that runs."""
    return (root / "autofn" / "functions").resolve() == registry.FOLDER.resolve()


def _folder_of_functions(root: Path) -> Path:
    folders = [Path(text) for text in origins.asked() if Path(text).is_dir()]
    return folders[0].resolve().relative_to(root.resolve()) if folders else Path("functions")


def _function(name: str, folder: Path) -> dict[Path, str]:
    own = folder == registry.FOLDER
    words = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "checkout": own,
        "namespace": "autofn" if own else folder.name,
        "headers": "../../csrc" if own else "autofn/csrc",
    }
    return {folder / name / file: rendered(f"function/{file}", **words) for file in FUNCTION}


def _left_in_a_checkout(name: str) -> list[str]:
    return [
        "make build/.extension    # compiles kernel.cpp: the variant cpp is n/a until then",
        f"autofn check {name}",
        f"a row of the table in README.md: | `{name}` | its formula |",
    ]


def rendered(template: str, **words: object) -> str:
    """A template below `templates/` with its words put in."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        variable_start_string="{=",
        variable_end_string="=}",
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{template}.jinja").render(words)


def write(files: Mapping[Path, str]) -> list[Path]:
    """Writes the files. Raises ValueError where one is there already, and then writes none."""
    there = [str(path) for path in files if path.exists()]
    if there:
        raise ValueError(f"{', '.join(there)}: there already, and nothing is written over; choose another name")
    for path, text in files.items():
        write_atomically(path, text)
    return list(files)
