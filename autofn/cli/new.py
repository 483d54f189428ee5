"""`autofn new`: the folder of a Function, ready to be changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..scaffold import Written


def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower case, digits and underscores.")],
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DIR", help="The folder of Functions; that of pyproject.toml, or functions."),
    ] = None,
) -> None:
    """Write a Function that passes check at once: reference, python, fused, cpp, kernel.cpp, test. Then change it.

    Nothing is written over. In a checkout of autofn the folder is one of the package's own.
    """
    from ..scaffold import new

    print_written(new(name, into=into))


def print_written(written: Written) -> None:
    """The files on stdout, what is left to do on stderr."""
    for path in written.files:
        typer.echo(path)
    typer.echo("\nnext:", err=True)
    for line in written.left:
        typer.echo(line, err=True)
