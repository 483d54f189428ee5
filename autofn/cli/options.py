"""Arguments and options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _use(texts: list[str] | None) -> None:
    """Makes the registry find them, here and in every process of the run."""
    if texts:
        from .. import origins

        origins.ask(texts)
        origins.own()


Specs = Annotated[
    list[str] | None,
    typer.Option(
        "--spec",
        metavar="FILE",
        help="Functions of your own: a Python file or a folder with Specs, or a module; repeatable.",
        callback=_use,
        is_eager=True,
        expose_value=False,
    ),
]
Functions = Annotated[list[str] | None, typer.Argument(metavar="[FUNCTION]...", help="Functions; all by default.")]
OrYours = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FUNCTION]...", help="Functions, all by default; or yours: pkg.module:NAME, path/to/file.py:NAME."
    ),
]
Inputs = Annotated[
    str | None, typer.Option("--inputs", metavar="SOURCE", help="Makes the arguments of yours: pkg.module:make_inputs.")
]
Reference = Annotated[
    str | None, typer.Option("--reference", metavar="SOURCE", help="Yours in PyTorch's own operations.")
]
Variants = Annotated[list[str] | None, typer.Option("--variant", "-v", help="Only these variants; repeatable.")]
Workloads = Annotated[list[str] | None, typer.Option("--workload", "-w", help="Only these workloads; repeatable.")]
Dtypes = Annotated[list[str] | None, typer.Option("--dtype", help="Such as float32, bfloat16; repeatable.")]
Device = Annotated[str, typer.Option("--device", help="cpu or cuda.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the results as JSON.")]
