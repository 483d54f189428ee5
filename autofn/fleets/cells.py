"""What a fleet is asked for: a matrix of commits, machines and devices. Plain data; imports no torch."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..repository import resolve, run_git

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Machine:
    """A kind of machine: the name that its results go by, and the options that make the scheduler choose one."""

    name: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Suite:
    """What of the suites is run. functions: () for all."""

    profile: str
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """One job: a commit (its full hash) on a machine and a device."""

    commit: str
    machine: Machine
    device: str

    def __str__(self) -> str:
        return f"{self.commit[:12]} on {self.machine.name} {self.device}"

    def folder(self, suite: Suite) -> str:
        """A name that another cell, or the same with another suite, does not have."""
        chosen = hashlib.sha256(" ".join(suite.functions).encode()).hexdigest()[:8] if suite.functions else "all"
        return f"{self.commit[:12]}-{self.machine.name}-{self.device}-{suite.profile}-{chosen}"


def machine(text: str) -> Machine:
    """The machine that is written as NAME or NAME:OPTION=VALUE,OPTION=VALUE. Raises ValueError for anything else."""
    name, _, rest = text.partition(":")
    pairs = [option.partition("=") for option in rest.split(",")] if rest else []
    if not NAME.fullmatch(name) or not all(key and equals and value for key, equals, value in pairs):
        raise ValueError(
            f"fleet: a machine is written NAME or NAME:OPTION=VALUE,... with options of sbatch, such as "
            f"epyc:constraint=epyc7763, got {text!r}"
        )
    return Machine(name, tuple((key.lstrip("-"), value) for key, _, value in pairs))


def commits(root: Path, revisions: Sequence[str]) -> list[str]:
    """The full hashes of revisions and ranges (A..B, first parents), the newest of a range first, each once.

    Raises LookupError where there is no such revision, or a range is empty.
    """
    return list(dict.fromkeys(commit for text in revisions for commit in _commits(root, text)))


def _commits(root: Path, text: str) -> list[str]:
    if ".." not in text:
        return [resolve(root, text)]
    before, _, after = text.partition("..")
    ends = f"{resolve(root, before)}..{resolve(root, after or 'HEAD')}"
    found = run_git(root, "rev-list", "--first-parent", ends).split()
    if not found:
        raise LookupError(f"fleet: there is no commit in the range {text!r}; the older end comes first")
    return found


def matrix(commits: Iterable[str], machines: Sequence[Machine], devices: Sequence[str]) -> list[Cell]:
    """Every cell, commit by commit, so that the first commits are whole first."""
    return [Cell(commit, one, device) for commit in commits for one in machines for device in devices]
