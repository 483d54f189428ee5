"""`autofn check`: every rule over every variant, or over a Function of anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Dtypes, JsonFile, Variants

if TYPE_CHECKING:
    from rich.console import Console

    from ..checks.checked import Checked
    from ..checks.plan import Check
    from ..checks.rule import Finding
    from ..records import Record

STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
# A rule's infos about many variants are a line; about few each is told.
FEW = 3
# Infos on how a Function is to be timed, the same of every variant.
TIMING = "timing-"


def check_command(
    functions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FUNCTION]...", help="Functions, all by default; or yours: pkg.module:NAME, path/to/file.py:NAME."
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option("--inputs", metavar="SOURCE", help="Makes the arguments of yours: pkg.module:make_inputs."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", metavar="SOURCE", help="Yours in PyTorch's own operations.")
    ] = None,
    surrogate: Annotated[
        bool, typer.Option("--surrogate", help="Its gradient is intentionally not the derivative.")
    ] = False,
    surrogate_of: Annotated[
        str | None, typer.Option("--surrogate-of", metavar="SOURCE", help="The function whose gradient it has instead.")
    ] = None,
    random: Annotated[bool, typer.Option("--random", help="Two calls of it differ by design.")] = False,
    mutates: Annotated[
        list[int] | None, typer.Option("--mutates", metavar="POSITION", help="It writes to this argument; repeatable.")
    ] = None,
    once_differentiable: Annotated[
        bool, typer.Option("--once-differentiable", help="Its second derivative is refused.")
    ] = False,
    variant: Variants = None,
    dtype: Dtypes = None,
    device: Device = "cpu",
    level: Annotated[str, typer.Option("--level", help="quick, or full with all that compiles.")] = "quick",
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="RULE", help="Only these rules, or a pattern; repeatable.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE", help="Not these rules, or a pattern; repeatable.")
    ] = None,
    suppress: Annotated[
        list[str] | None,
        typer.Option("--suppress", metavar="RULE=REASON", help="Findings that do not count, and why; repeatable."),
    ] = None,
    warnings_as_errors: Annotated[
        bool, typer.Option("--warnings-as-errors", help="Exit with 1 for a warning too.")
    ] = False,
    isolate: Annotated[bool, typer.Option(help="Rules in worker processes, or in this one.")] = True,
    json_file: JsonFile = None,
    junit_file: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None,
) -> None:
    """Check that a Function keeps autograd's contract: gradients, saving, layouts, dtypes, transforms, and more.

    Exit status: 0 no errors, 1 errors, 2 misuse, 3 nothing could be checked. `autofn rule RULE` explains a rule.
    """
    from .. import checks
    from ..checks import junit
    from ..checks.checked import Checked
    from ..measure import machine, run
    from ..records import UNAVAILABLE, write_atomically
    from .progress import progress_bar
    from .save import resumable, write_json

    run.set_threads(1)
    intended = {
        "surrogate": surrogate or surrogate_of is not None, "surrogate_of": surrogate_of, "random": random,
        "mutates": tuple(mutates or ()), "once_differentiable": once_differentiable,
    }  # fmt: skip
    work, asked = _work(
        functions, inputs, reference, intended,
        variants=variant, dtypes=dtype, device=device, level=level, select=select, ignore=ignore, suppress=suppress,
    )  # fmt: skip
    commit = machine.commit()
    saving = resumable("check", commit, asked)
    conditions = {**machine.conditions_apart(device, 1), "run": saving.run, "commit": commit}
    with progress_bar("check") as progress:
        for record in checks.records(work, conditions=conditions, done=saving.done, progress=progress, isolate=isolate):
            saving.journal.append([record])
    found = checks.in_order(work, saving.done)
    saving.finish()
    if json_file:
        write_json(json_file, found)
    if junit_file:
        write_atomically(junit_file, junit.xml(found))
    checked = Checked(tuple(found))
    _print(checked)
    if checked.errors or (warnings_as_errors and checked.warnings):
        raise typer.Exit(1)
    if all(record.status == UNAVAILABLE for record in found):
        raise typer.Exit(3)


def _work(
    functions: list[str] | None,
    inputs: str | None,
    reference: str | None,
    intended: dict[str, Any],
    *,
    variants: list[str] | None,
    dtypes: list[str] | None,
    device: str,
    level: str,
    select: list[str] | None,
    ignore: list[str] | None,
    suppress: list[str] | None,
) -> tuple[list[list[Check]], list[Any]]:
    """The checks that were asked for, and all that makes two commands different."""
    from ..checks import plan, sources

    chosen = plan.chosen(select, ignore, level)
    reasons = _reasons(suppress)
    own = [name for name in functions or () if sources.is_source(name)]
    asked: list[Any] = [
        functions,
        inputs,
        reference,
        intended,
        variants,
        dtypes,
        device,
        level,
        select,
        ignore,
        suppress,
    ]
    if not own:
        if inputs or reference or any(intended.values()):
            raise ValueError(
                "--inputs, --reference and what a Function intends go with one of yours (pkg.module:NAME); those of "
                "the registry say it in their Spec"
            )
        found = plan.of_registry(functions, variants=variants, dtypes=dtypes, device=device, rules=chosen, level=level)
        return [plan.with_suppressed(each, reasons) for each in found], asked
    if len(own) != len(functions or ()) or variants or dtypes:
        raise ValueError(f"{own[0]} is yours: check it in a command of its own, without --variant and --dtype")
    if not inputs:
        raise ValueError(f"{own[0]}: --inputs pkg.module:make_inputs must say what makes its arguments")
    subjects = [_own(name, who, inputs, reference, intended, device) for name, who in _called(own).items()]
    asked.append(sources.fingerprint())
    return [plan.with_suppressed(plan.of_subject(each, chosen), reasons) for each in subjects], asked


def _called(names: list[str]) -> dict[str, str]:
    """What each is called in the results: its name alone, or all of it where two have one name."""
    short = [name.rpartition(":")[2] for name in names]
    return {name: end if short.count(end) == 1 else name for name, end in zip(names, short, strict=True)}


def _own(name: str, who: str, inputs: str, reference: str | None, intended: dict[str, Any], device: str) -> Any:
    from ..checks import sources
    from ..checks.intent import Intent
    from ..checks.subject import callable_of, of_callable

    surrogate_of = intended["surrogate_of"] and callable_of(sources.named(intended["surrogate_of"]))
    return of_callable(
        sources.named(name),
        sources.named(inputs),
        reference=sources.named(reference) if reference else None,
        intent=Intent(**{**intended, "surrogate_of": surrogate_of}),
        device=device,
        who=who,
    )


def _reasons(suppress: list[str] | None) -> dict[str, str]:
    from ..checks import plan, rules

    reasons = {}
    for text in suppress or ():
        rule, equals, reason = text.partition("=")
        if not equals or not reason.strip():
            raise ValueError(
                f"--suppress: must be RULE=REASON, got {text!r}; a suppression without a reason hides a fault"
            )
        if rule not in {each.id for each in rules()}:
            raise plan.unknown("there is no rule", rule, [each.id for each in rules()])
        reasons[rule] = reason.strip()
    return reasons


def _print(checked: Checked) -> None:
    from rich.console import Console

    console = Console()
    _print_table(console, checked)
    for severity in ("error", "warning"):
        _print_findings(console, checked, severity)
    _print_infos(console, checked)
    _print_rest(console, checked.records)
    ran = sum(record.status != "n/a" for record in checked.records)
    counts = f"{len(checked.errors)} errors, {len(checked.warnings)} warnings, {len(checked.infos)} infos"
    console.print(f"{ran} checks, {counts}", highlight=False)


def _print_table(console: Console, checked: Checked) -> None:
    from rich.table import Table

    from ..checks.checked import by_case, findings_of
    from ..records import OK, UNAVAILABLE

    table = Table("Function", "Variant", "Passed", "Errors", "Warnings", "Infos", "n/a", "Seconds")
    for (function, variant), records in by_case(checked.records):
        found = [finding.severity for record in records for finding in findings_of(record)]
        errors, warnings, infos = (found.count(severity) for severity in STYLES)
        table.add_row(
            function, variant, str(sum(record.status == OK for record in records)),
            f"[bold red]{errors}[/]" if errors else "0", f"[yellow]{warnings}[/]" if warnings else "0", str(infos),
            str(sum(record.status == UNAVAILABLE for record in records)),
            f"{sum(record.detail.get('seconds', 0.0) for record in records):.1f}",
        )  # fmt: skip
    console.print(table)


def _print_findings(console: Console, checked: Checked, severity: str) -> None:
    from ..checks.checked import findings_of

    for record in checked.records:
        for finding in findings_of(record):
            if finding.severity == severity:
                _print_finding(console, finding, f"{_who(record)}{_where(record)}")


def _print_finding(console: Console, finding: Finding, who: str) -> None:
    from rich.markup import escape

    style = STYLES[finding.severity]
    place = f"{escape(finding.where)}: " if finding.where else ""
    console.print(
        f"[{style}]{finding.severity}[/] {finding.rule}: {escape(who)}: {place}{escape(finding.message)}",
        highlight=False,
    )
    if finding.observed or finding.expected:
        console.print(f"    observed {escape(finding.observed)}, expected {escape(finding.expected)}", highlight=False)
    if finding.fix:
        console.print(f"    fix: {escape(finding.fix)}", highlight=False)


def _who(record: Record) -> str:
    """One of the registry has variants; somebody's own is what it is called."""
    return record.function if record.variant == "given" else f"{record.function} ({record.variant})"


def _where(record: Record) -> str:
    return f" in {record.dtype}" if record.workload == "given" else f" {record.workload} {record.dtype}"


def _print_infos(console: Console, checked: Checked) -> None:
    """Each info of a few variants; of many, which variants a rule has one for."""
    from rich.markup import escape

    from ..checks.checked import by_case, findings_of

    few = len(list(by_case(checked.records))) <= FEW
    told: dict[tuple[str, str], list[str]] = {}
    for record in checked.records:
        for finding in findings_of(record):
            if finding.severity == "info" and (few or not finding.rule.startswith(TIMING)):
                message = str(finding) if few else "see --json, or check one variant"
                told.setdefault((finding.rule, message), []).append(_who(record))
    for (rule, message), whom in told.items():
        listed = list(dict.fromkeys(whom))
        who = ", ".join(listed) if len(listed) <= FEW else f"{len(listed)} variants"
        console.print(f"[cyan]info[/] {rule}: {escape(who)}: {escape(message)}", highlight=False)


def _print_rest(console: Console, records: tuple[Record, ...]) -> None:
    """What could not be checked of a whole variant, and what was suppressed."""
    from rich.markup import escape

    from ..checks.checked import by_case
    from ..records import UNAVAILABLE

    for (function, variant), mine in by_case(records):
        if all(record.status == UNAVAILABLE for record in mine):
            console.print(f"n/a {function} ({variant}): {escape(mine[0].reason)}", highlight=False)
    for record in records:
        if "suppressed" in record.detail:
            who = _who(record)
            console.print(f"suppressed {record.metric}: {escape(who)}: {escape(record.reason)}", highlight=False)
