"""`autofn choose`: which variant a call of a Function means, from all results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Functions


def choose_command(
    functions: Functions = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="Whose results; needed where there are several.")
    ] = None,
    threads: Annotated[int, typer.Option("--threads", help="Only times of so many threads count.")] = 1,
    root: Annotated[Path, typer.Option(help="Folder whose results are read.", metavar="DIR")] = Path("."),
) -> None:
    """Write what `variant="auto"` means into each Function's folder: the fastest right one, by the newest results.

    It takes verdicts of `autofn bench` or asv, and a check without errors. Functions without them keep what they have.
    """
    from .. import choice, choosing, registry, results

    names = functions or list(registry.names())
    for name in names:
        registry.spec(name)
    found = results.load(root)
    if machine:
        found = found[found["machine"] == machine]
    chosen = {name: choosing.choose(name, found, threads) for name in names}
    for name, content in chosen.items():
        if content is None:
            typer.echo(
                f"{name}: no verdicts below {root}; run `autofn check {name}` and `autofn bench {name}`", err=True
            )
            continue
        choosing.write(name, content)
        for (device, dtype), steps in choice.read(name).steps.items():
            typer.echo(f"{name} {device} {dtype}: {choice.told(steps)}")
    if not any(chosen.values()):
        raise typer.Exit(3)
