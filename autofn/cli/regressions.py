"""`autofn regressions`: the commits at which something came to take more, from results that are there."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import JsonFile

if TYPE_CHECKING:
    from ..regressions import Step
    from ..reporting.history import Commit


def regressions_command(
    since: Annotated[str | None, typer.Option("--since", metavar="REV", help="Only commits after this one.")] = None,
    improvements: Annotated[bool, typer.Option("--improvements", help="Also what came to take less.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Which commit made which case slower or hungrier, worst first: what `asv run` measured over commits.

    Exit status 1 where there is a regression, 3 where there are no results of two commits.
    """
    from .. import results
    from ..regressions import steps
    from ..reporting.history import measured
    from ..repository import top

    top(Path())
    frame = results.load()
    commits = [commit for commit in measured(frame, Path()) if commit.known]
    after = _after(since)
    found = [step for step in steps(frame, [commit.hash for commit in commits]) if step.worse or improvements]
    found = [step for step in found if after is None or step.commit in after]
    if json_file:
        from ..records import write_atomically

        write_atomically(json_file, json.dumps([asdict(step) for step in found], indent=1) + "\n")
    if len(commits) < 2:
        typer.echo(f"autofn: regressions: results of two commits are needed, {_why_few(frame, len(commits))}", err=True)
        raise typer.Exit(3)
    _print(found, {commit.hash: commit for commit in commits})
    if any(step.worse for step in found):
        raise typer.Exit(1)


def _why_few(frame: Any, known: int) -> str:
    """What there is, and the way to more."""
    from ..reporting.history import clean
    from ..repository import missing_history

    others = clean(frame["commit"]).nunique() - known
    there = f"there are {known}" + (f", and of {others} that git does not know here" if others else "")
    return f"{there}; {(others and missing_history(Path())) or 'asv run measures more'}"


def _after(since: str | None) -> set[str] | None:
    """The commits of HEAD that are not of `since`. Raises LookupError where there is no such revision."""
    if since is None:
        return None
    from ..repository import resolve, run_git

    return set(run_git(Path(), "rev-list", f"{resolve(Path(), since)}..HEAD").split())


def _print(found: list[Step], commits: dict[str, Commit]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    if not found:
        console.print(f"no regression in {len(commits)} commits", highlight=False)
        return
    table = Table("Case", "Phase", "Metric", "Change", "Noise floor", "Commit", "Subject")
    for step in found:
        colour = "red" if step.worse else "green"
        table.add_row(
            *_row(step)[:3], f"[{colour}]{_row(step)[3]}[/]", *map(escape, _commit(step, commits[step.commit]))
        )
    console.print(table)


def _row(step: Step) -> list[str]:
    case = f"{step.function} {step.variant} {step.workload} {step.dtype} {step.device}"
    percent = [f"{factor - 1:+.1%}" for factor in (step.factor, step.low, step.high)]
    change = percent[0] if step.low == step.high else f"{percent[0]} ({percent[1]} to {percent[2]})"
    return [case, step.phase, step.metric, change]


def _commit(step: Step, commit: Any) -> list[str]:
    return [f"{step.floor:.1%}" if step.metric == "time_s" else "exact", commit.short, commit.subject]
