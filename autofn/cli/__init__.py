"""The command line: parses, calls, prints; no logic. `autofn --help` loads neither torch nor pandas.

Exit status: 0 fine, 1 a finding, 2 misuse, 3 could not measure.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from .bench import bench_command
from .check import check_command
from .list import list_command
from .report import report_command
from .trace import trace_command

INTERRUPTED = 130

app = typer.Typer(
    name="autofn",
    help="Is a custom torch.autograd.Function right, fast and frugal, and does it stay so?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_command)
app.command("check")(check_command)
app.command("bench")(bench_command)
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
    """Runs the command line; a user's mistake is one line on stderr and exit status 2, never a traceback."""
    try:
        app()
    except (LookupError, ValueError) as error:
        if not _speaks_to_the_user(error):
            raise
        typer.echo(f"autofn: {error.args[0] if error.args else error}", err=True)
        sys.exit(2)
    except OSError as error:
        if error.filename is None:
            raise
        typer.echo(f"autofn: {error}", err=True)
        sys.exit(2)
    except SystemExit as ended:
        # What typer makes of Ctrl-C.
        if ended.code == INTERRUPTED:
            typer.echo(
                "autofn: interrupted; what was done is on disk, and the same command goes on from there", err=True
            )
        raise


def _speaks_to_the_user(error: Exception) -> bool:
    """A plain LookupError or ValueError is ours, with a whole sentence; KeyError and its like are defects."""
    return type(error) in (LookupError, ValueError)
