"""`autofn check`: every rule over every variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from .options import Device, Dtypes, Functions, JsonFile, Variants

if TYPE_CHECKING:
    from ..records import Record


def check_command(
    functions: Functions = None,
    variant: Variants = None,
    dtype: Dtypes = None,
    device: Device = "cpu",
    json_file: JsonFile = None,
) -> None:
    """Check outputs, gradients and second derivatives of every variant against the float64 reference."""
    from .. import checks
    from ..measure import machine, run
    from ..records import FAILED, OK
    from .progress import progress_bar
    from .save import resumable, write_json

    run.set_threads(1)
    commit = machine.commit()
    saving = resumable("check", commit, functions, variant, dtype, device)
    conditions = {**machine.conditions(device, 1), "run": saving.run, "commit": commit}
    with progress_bar("check") as progress:
        work = checks.records(
            functions, variants=variant, dtypes=dtype, device=device,
            conditions=conditions, done=saving.done, progress=progress,
        )  # fmt: skip
        for records in work:
            saving.journal.append(records)
    found = saving.done
    saving.finish()
    if json_file:
        write_json(json_file, found)
    _print(found)
    if any(record.status == FAILED for record in found):
        raise typer.Exit(1)
    if not any(record.status == OK for record in found):
        raise typer.Exit(3)


def _print(found: list[Record]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..records import FAILED, UNAVAILABLE

    rules = list(dict.fromkeys(record.metric for record in found))
    variants = list(dict.fromkeys((record.function, record.variant) for record in found))
    table = Table("Function", "Variant", *rules)
    for function, variant in variants:
        mine = [record for record in found if (record.function, record.variant) == (function, variant)]
        cells = [_cell([record.status for record in mine if record.metric == rule]) for rule in rules]
        table.add_row(function, variant, *cells)
    console = Console()
    console.print(table)
    for record in found:
        if record.status == FAILED:
            where = f"{record.function} ({record.variant}) {record.workload} {record.dtype}"
            console.print(f"[red]{record.metric}[/]: {where}: {escape(record.reason)}", highlight=False)
    for reason in dict.fromkeys(f"{r.variant}: {r.reason}" for r in found if r.status == UNAVAILABLE):
        console.print(f"n/a {escape(reason)}", highlight=False)
    failed = sum(record.status == FAILED for record in found)
    console.print(f"{len(found)} checks, {failed} findings", highlight=False)


def _cell(statuses: list[str]) -> str:
    from ..records import FAILED, OK

    if not statuses:
        return "-"
    if FAILED in statuses:
        return f"[red]{statuses.count(FAILED)} of {len(statuses)} failed[/]"
    return f"[green]ok[/] {statuses.count(OK)}" if OK in statuses else "n/a"
