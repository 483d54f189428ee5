"""What git says of the repository that the commands run in; its errors are the user's to mend. Imports no torch."""

from __future__ import annotations

import subprocess
from pathlib import Path


def top(folder: Path) -> Path:
    """The folder of the repository that `folder` lies in. Raises LookupError where it lies in none."""
    return Path(run_git(folder, "rev-parse", "--show-toplevel"))


def resolve(root: Path, revision: str) -> str:
    """The full hash of a revision. Raises LookupError where there is none, or no repository."""
    try:
        return run_git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError as error:
        hint = missing_history(root) or "git log shows what there is"
        raise LookupError(f"there is no revision {revision!r} here; {hint}") from error


def missing_history(root: Path) -> str:
    """How to get the commits that this clone lacks, "" where it has all."""
    shallow = run_git(root, "rev-parse", "--is-shallow-repository") == "true"
    return "this clone is shallow, git fetch --unshallow gets the rest" if shallow else ""


def run_git(root: Path, *words: str) -> str:
    """What git says. Raises LookupError without git, outside a repository, or with what git complains of;
    CalledProcessError where it fails without a word.
    """
    command = ["git", "-C", str(root), *words]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError as error:
        raise LookupError("git is not on the PATH; install it") from error
    except subprocess.CalledProcessError as error:
        if "not a git repository" in error.stderr:
            raise LookupError(f"{root.resolve()} is not in a git repository; change into one") from error
        if error.stderr.strip():
            raise LookupError(f"git {words[0]}: {' '.join(error.stderr.split())}") from error
        raise
