"""`autofn check`: every rule over every variant, or over a Function of anybody's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Dtypes, Inputs, JsonFile, OrYours, Reference, Specs, Variants

if TYPE_CHECKING:
    from ..checks.plan import Check


def check_command(
    functions: OrYours = None,
    inputs: Inputs = None,
    reference: Reference = None,
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
    promise: Annotated[
        list[str] | None,
        typer.Option("--promise", metavar="TEXT", help="Such as 'saved_new_bytes <= 0', of yours; repeatable."),
    ] = None,
    spec: Specs = None,
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
    from .findings import print_checked
    from .progress import progress_bar
    from .save import resumable, write_json

    run.set_threads(1)
    intended = {
        "surrogate": surrogate or surrogate_of is not None, "surrogate_of": surrogate_of, "random": random,
        "mutates": tuple(mutates or ()), "once_differentiable": once_differentiable,
        "promises": promise or [],
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
    print_checked(checked)
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
    from .. import sources
    from ..checks import plan

    chosen = plan.chosen(select, ignore, level)
    reasons = _reasons(suppress)
    own = [name for name in functions or () if sources.is_source(name)]
    chosen_by = [variants, dtypes, device, level, select, ignore, suppress]
    asked: list[Any] = [functions, inputs, reference, intended, *chosen_by]
    if not own:
        if inputs or reference or any(intended.values()):
            raise ValueError(
                "--inputs, --reference and what a Function intends or promises go with one of yours (pkg.module:NAME); "
                "those of the registry say it in their Spec"
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
    from .. import sources
    from ..checks.intent import Intent
    from ..checks.subject import callable_of, of_callable

    said = {**intended}
    promises, surrogate_of = said.pop("promises"), said.pop("surrogate_of")
    given = surrogate_of and callable_of(sources.named(surrogate_of))
    return of_callable(
        sources.named(name),
        sources.named(inputs),
        reference=sources.named(reference) if reference else None,
        intent=Intent(**said, surrogate_of=given),
        promises=promises,
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
