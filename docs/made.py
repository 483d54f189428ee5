"""Writes the pages of docs/reference that say what the code says: the command line, and the fields of a Spec.

    python docs/made.py

A test compares the pages with what this would write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from autofn import cli, spec

FOLDER = Path(__file__).parent / "reference"
COMMAND_LINE = """# Command line

Made from the commands themselves: `python docs/made.py`. `autofn COMMAND --help` says the same.

Every command ends with a status: 0 fine, 1 a finding (a failed check, a broken promise, a regression, a variant that
crashed), 2 misuse, 3 nothing could be measured or read, 130 interrupted. What a command says beyond it stands there. A
mistake is one line on stderr that begins with `autofn:`; what is piped is on stdout alone, and progress on stderr.

| variable | means |
|---|---|
| `AUTOFN_SPECS` | spec files, folders or modules, separated as in PATH; `--spec` sets it ([own.md](../own.md)) |
| `AUTOFN_CACHE` | where C++ of your own is compiled to, instead of the user's cache folder |
| `AUTOFN_PROFILE` | what `asv run` measures: glance, quick, standard or full ([asv.md](../asv.md)) |
| `AUTOFN_TORCH` | the versions of torch that `asv run` measures: one, or `all` |
| `AUTOFN_ARCH` | while installing: `native` builds for this very processor |
| `AUTOFN_NO_EXTENSION` | while installing: `1` leaves the C++ extension out |
"""
SPEC = """# Spec

Made from the docstrings of `autofn/spec.py`: `python docs/made.py`. [own.md](../own.md) shows one at work.

"""
PROMISES = """
What can be promised, and how it is judged: [own.md](../own.md#promises).
"""


def command_line() -> str:
    """Every command with its arguments and options, in the order in which `autofn --help` lists them."""
    root: Any = typer.main.get_command(cli.app)
    return COMMAND_LINE + "".join(_command(name, command) for name, command in root.commands.items())


def _command(name: str, command: Any) -> str:
    told = [each for each in command.params if each.name != "help"]
    usage = ["autofn", name, "[OPTIONS]", *(_argument(each) for each in told if each.param_type_name == "argument")]
    rows = "".join(f"{_parameter(each)}\n" for each in told)
    table = f"| argument or option | means |\n|---|---|\n{rows}" if rows else ""
    # A paragraph of a docstring is one of the page.
    parts = [f"## autofn {name}", f"```text\n{' '.join(usage)}\n```", cleandoc(command.help or ""), table]
    return "\n" + "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _argument(parameter: Any) -> str:
    """Such as `BASE`, `[HEAD]`, `[FUNCTION]...`."""
    given: str = parameter.metavar or parameter.name.upper()
    return given if parameter.required or given.startswith("[") else f"[{given}]"


def _parameter(parameter: Any) -> str:
    shown = [_argument(parameter)]
    if parameter.param_type_name == "option":
        long, *others = parameter.opts
        value = "" if parameter.is_flag else f" {parameter.metavar or long.lstrip('-').upper()}"
        shown = [f"{long}{value}", *others, *parameter.secondary_opts]
    names = ", ".join(f"`{text}`" for text in shown)
    # Nothing and no are what is meant anyhow; of a pair the first is.
    default = "" if parameter.default in (None, "", False, True) else f" By default `{parameter.default}`."
    return f"| {names.replace('|', chr(92) + '|')} | {parameter.help}{default} |"


def spec_page() -> str:
    """The fields of Spec and Tolerance with type, default and meaning."""
    kinds: tuple[tuple[type, str], ...] = ((spec.Spec, PROMISES), (spec.Tolerance, ""))
    return SPEC + "\n".join(_fields(kind) + after for kind, after in kinds)


def _fields(kind: type) -> str:
    text = cleandoc(kind.__doc__ or "")
    meanings = dict(_meanings(text))
    rows = []
    for each in fields(kind):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        given = "must be given" if default is MISSING else f"`{_shown(default)}`"
        declared = " or ".join(f"`{kind}`" for kind in str(each.type).split(" | "))
        rows.append(f"| `{each.name}` | {declared} | {given} | {meanings[each.name]} |")
    head = ["| field | type | default | meaning |", "|---|---|---|---|"]
    opening = text.split("\n\n")[0].replace("\n", " ")
    raises = [part.replace("\n", " ") for part in text.split("\n\n") if part.startswith("Raises")]
    after = "\n" + "\n".join(raises) + "\n" if raises else ""
    return f"## {kind.__name__}\n\n{opening}\n\n" + "\n".join([*head, *rows]) + "\n" + after


def _shown(default: Any) -> str:
    return repr(default) if default != frozenset() else "frozenset()"


def _meanings(text: str) -> Iterator[tuple[str, str]]:
    """The fields that a docstring tells of as `name: meaning`, going on in lines that are indented."""
    for found in re.finditer(r"^(\w+): (.*(?:\n +.*)*)", text, re.MULTILINE):
        yield found[1], re.sub(r"\s+", " ", found[2])


PAGES: dict[str, Callable[[], str]] = {"command-line.md": command_line, "spec.md": spec_page}


if __name__ == "__main__":
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), encoding="utf-8")
