"""Arguments and options that several commands share, so that one name means one thing everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Functions = Annotated[list[str] | None, typer.Argument(metavar="[FUNCTION]...", help="Functions; all by default.")]
Variants = Annotated[list[str] | None, typer.Option("--variant", "-v", help="Only these variants; repeatable.")]
Workloads = Annotated[list[str] | None, typer.Option("--workload", "-w", help="Only these workloads; repeatable.")]
Dtypes = Annotated[list[str] | None, typer.Option("--dtype", help="Such as float32, bfloat16; repeatable.")]
Device = Annotated[str, typer.Option("--device", help="cpu or cuda.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the results as JSON.")]
