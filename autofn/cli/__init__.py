"""The command line: parses, calls, prints; no logic. `autofn --help` loads neither torch nor pandas.

Exit status: 0 fine, 1 a finding (a failed check, a variant that crashed), 2 misuse, 3 could not measure.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Annotated

import typer

from .. import __version__
from .bench import bench_command
from .check import check_command
from .choose import choose_command
from .compare import compare_command
from .dev import dev_command
from .fleet import fleet_command
from .init import init_command
from .list import list_command
from .new import new_command
from .regressions import regressions_command
from .report import report_command
from .results import results_command
from .rule import rule_command
from .trace import trace_command

INTERRUPTED = 130
# A disk, or a user's share of it.
FULL = (errno.ENOSPC, errno.EDQUOT)

app = typer.Typer(
    name="autofn",
    help="Is a custom torch.autograd.Function right, fast and frugal, and does it stay so?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_command)
app.command("new")(new_command)
app.command("init")(init_command)
app.command("check")(check_command)
app.command("rule")(rule_command)
app.command("bench")(bench_command)
app.command("compare")(compare_command)
app.command("dev")(dev_command)
app.command("fleet")(fleet_command)
app.command("regressions")(regressions_command)
app.command("choose")(choose_command)
app.command("results")(results_command)
app.command("trace")(trace_command)
app.command("report")(report_command)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"autofn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line.

    A user's mistake is one line on stderr and exit status 2, never a traceback; a defect of autofn's own is a traceback
    and exit status 3, for nothing was measured.
    """
    try:
        app()
    except Exception as error:
        if not _speaks_to_the_user(error):
            traceback.print_exc()
            sys.exit(3)
        typer.echo(f"autofn: {_of_the_system(error) if isinstance(error, OSError) else error.args[0]}", err=True)
        sys.exit(3 if isinstance(error, OSError) and error.errno in FULL else 2)
    except SystemExit as ended:
        # What typer makes of Ctrl-C.
        if ended.code == INTERRUPTED:
            typer.echo(
                "autofn: interrupted; what was done is on disk, bench and check go on from there, trace with --missing",
                err=True,
            )
        elif _tell_broken() and not ended.code:
            sys.exit(1)
        raise


def _tell_broken() -> bool:
    """Says what of somebody's own could not be read, and was gone on without; whether there is any."""
    origins = sys.modules.get(f"{__package__.removesuffix('.cli')}.origins")
    broken = origins.broken() if origins else {}
    for reason in broken.values():
        typer.echo(f"autofn: {reason}", err=True)
    return bool(broken)


def _speaks_to_the_user(error: Exception) -> bool:
    """A plain LookupError or ValueError is ours, with a whole sentence; KeyError and its like are defects."""
    if isinstance(error, OSError):
        return error.filename is not None or error.errno in FULL
    return type(error) in (LookupError, ValueError) and bool(error.args)


def _of_the_system(error: OSError) -> str:
    """What the system refuses, and the way out."""
    if error.errno in FULL:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}; what was measured is kept, and with more room the same command goes on"
    if isinstance(error, PermissionError) and os.path.exists(error.filename):
        return f"{error}; it belongs to user {os.stat(error.filename).st_uid}, this is user {os.geteuid()}"
    return str(error)
