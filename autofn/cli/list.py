"""`autofn list`: Functions, variants, workloads, and what cannot run here."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .options import Device, Functions, Specs

# More of them are a number.
FEW = 4


def list_command(
    functions: Functions = None,
    spec: Specs = None,
    device: Device = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List Functions, their variants and workloads, and why a variant cannot run here."""
    from .. import registry
    from ..terms import DEVICES, unknown

    if device not in DEVICES:
        raise unknown("there is no device", device, DEVICES)
    found = [_describe(name, device) for name in functions or registry.names()]
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        _print(found, device)


def _describe(name: str, device: str) -> dict[str, Any]:
    from .. import choice, registry

    spec = registry.spec(name)
    able = choice.runnable(name, device)
    return {
        "function": name,
        "formula": registry.summary(name),
        "version": spec.version,
        "dtypes": list(spec.dtypes),
        "workloads": {workload: dict(sizes) for workload, sizes in spec.workloads.items()},
        "variants": {
            v.name: {"unavailable": registry.unavailable(name, v.name, device)} for v in registry.variants(name)
        },
        "auto": {dtype: choice.steps(name, device, dtype) for dtype in spec.dtypes if able},
        "without": dict(spec.without),
    }


def _print(found: list[dict[str, Any]], device: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from ..choice import told

    table = Table("Function", "Formula", f"Variants on {device}", "Auto")
    for entry in found:
        names = [f"[red]{v}[/]" if why["unavailable"] else v for v, why in entry["variants"].items()]
        auto = told(next(iter(entry["auto"].values()), ()))
        table.add_row(entry["function"], escape(entry["formula"]), " ".join(names), auto)
    console = Console()
    console.print(table)
    for sizes, names in _by_sizes(found).items():
        who = f"{len(names)} Functions" if len(names) > FEW else ", ".join(names)
        console.print(f"{who}: {sizes}", highlight=False)
    reasons = {
        (why["unavailable"], variant): None
        for entry in found
        for variant, why in entry["variants"].items()
        if why["unavailable"]
    }
    for reason, variant in reasons:
        console.print(f"[red]{variant}[/] cannot run here: {escape(reason)}", highlight=False)


def _by_sizes(found: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The Functions that have the same workloads and dtypes, by these."""
    alike: dict[str, list[str]] = {}
    for entry in found:
        sizes = f"{' '.join(entry['workloads'])} in {' '.join(entry['dtypes'])}"
        alike.setdefault(sizes, []).append(entry["function"])
    return alike
