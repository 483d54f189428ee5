"""Reports to keep: the raw results with the command that made them and the commit, from which pages are made again.

`reports/published/<machine>/<commit>/report/` holds `report.json`, and below `asv/` and `runs/` what a root has in
`.asv` and `.autofn/runs`, each file as it is or packed by gzip.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from ..records import ASV_JOURNAL, ASV_RESULTS, RUNS, Journal, write_atomically
from . import NoResultsError, definitions_of, read, write
from .inputs import measured_hash
from .model import anchor

PUBLISHED = Path("reports/published")
TOLD = "report.json"
# Where the folders of a root are in a published report.
PLACES = {ASV_RESULTS.parent: Path("asv"), RUNS: Path("runs")}
PACKED = ".gz"
WAY_OUT = "commit, and measure again"
SAYS = "a published report says its command, commit, machine and date"


@dataclass(frozen=True)
class Told:
    """What is said of a report. command: that made its results; commit: the full hash; date: of publishing, UTC."""

    command: str
    commit: str
    machine: str
    date: str


class UntoldError(ValueError):
    """A published report does not say what it is of."""


def publish(root: Path, command: str, *, head: str = "") -> list[Path]:
    """Keeps the results of one commit below `root`: a folder a machine that measured it, below reports/published.

    head: the commit, by default the last that has results. All runs of it are kept, of changed working trees none, and
    what asv measured of it and of the commits before it. The folders come back.

    Raises NoResultsError where nothing was measured, LookupError where the commit was not, ValueError for a folder that
    is there already.
    """
    inputs = read(root)
    hashes = [commit.hash for commit in inputs.commits if commit.hash]
    commit = measured_hash(root, head, inputs.commits) if head else "".join(hashes[-1:])
    results = inputs.results
    mine = (results["commit"] == commit) & (results["commit"] != "")
    if not mine.any():
        raise LookupError(
            f"publish: a report is of a commit, got only changed trees of {commit[:8] or 'none'}; {WAY_OUT}"
        )
    before = results["commit"].isin(hashes[: hashes.index(commit)]) & (results["source"] == "asv")
    made = []
    for machine in sorted(set(results["machine"][mine])):
        rows = results[(mine | before) & (results["machine"] == machine)]
        target = root / PUBLISHED / anchor(machine or "unknown") / commit[:8] / "report"
        told = Told(command, commit, machine, datetime.now(UTC).isoformat(timespec="seconds"))
        _keep(target, told, {path.relative_to(root): path for path in _files(rows, root)})
        made.append(target)
    return made


def _files(rows: pd.DataFrame, root: Path) -> Iterator[Path]:
    """The files that rows came from, with what asv knows of the machine and the journals know of its times."""
    yield from map(Path, rows["file"].unique())
    asv = rows[rows["source"] == "asv"]
    yield from {path for file in asv["file"].unique() if (path := Path(file).with_name("machine.json")).exists()}
    commits = set(asv["commit"])
    for path in sorted((root / ASV_JOURNAL).glob("*/*/*.jsonl")):
        first = next(Journal(path).records(), None)
        if first is not None and first.commit in commits:
            yield path


def _keep(target: Path, told: Told, files: Mapping[Path, Path]) -> None:
    """The whole folder, or none of it. files: by where they are below their root."""
    if target.exists():
        raise ValueError(f"publish: {target} is there already; remove it to publish anew")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".report-") as folder:
        made = Path(folder) / target.name
        for below, path in files.items():
            content = gzip.compress(path.read_bytes(), mtime=0)
            write_atomically(made / _published(below).with_name(path.name + PACKED), content)
        write_atomically(made / TOLD, json.dumps(asdict(told), indent=1) + "\n")
        made.rename(target)


def found(folder: Path) -> list[Path]:
    """The published reports below a folder."""
    return sorted(path.parent for path in folder.rglob(TOLD))


def told_of(folder: Path) -> Told:
    """What is said of a published report. Raises UntoldError where that cannot be read."""
    try:
        content = json.loads((folder / TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UntoldError(f"{TOLD}: {SAYS}; it cannot be read: {error}") from error
    said = content if isinstance(content, dict) else {}
    words = [word for field in fields(Told) if isinstance(word := said.get(field.name), str)]
    if len(words) < len(fields(Told)):
        raise UntoldError(f"{TOLD}: {SAYS} as texts, got {content!r:.200}")
    return Told(*words)


def pages(folder: Path, out: Path, definitions: Path | None = None) -> list[Path]:
    """The pages of a published report, written below `out`; as of `report`, the front page first.

    out: a folder in the repository, whose git knows the commits. What is damaged is named on the pages, and the rest is
    there. Raises NoResultsError where nothing can be read.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".root-") as made:
        root = Path(made)
        damaged = tuple(_unpack(folder, root))
        try:
            inputs = read(root)
        except NoResultsError as error:
            raise NoResultsError("\n".join(["report: none of its results can be read", *damaged])) from error
        skipped = (_published_name(message, root) for message in inputs.skipped)
        return write(replace(inputs, skipped=(*damaged, *skipped)), out, definitions_of(root, definitions))


def _unpack(folder: Path, root: Path) -> Iterator[str]:
    """Makes a root of a published report; a sentence a file that cannot be read comes back."""
    for place, name in PLACES.items():
        for path in sorted(path for path in (folder / name).rglob("*") if path.is_file()):
            target = root / place / path.relative_to(folder / name)
            try:
                content = path.read_bytes()
                if path.suffix == PACKED:
                    content, target = gzip.decompress(content), target.with_suffix("")
            except (OSError, EOFError, zlib.error) as error:
                yield f"{path.relative_to(folder)}: skipped, cannot be unpacked: {error}"
                continue
            write_atomically(target, content)


def _published(path: Path) -> Path:
    """Where a file of a root is in a published report."""
    for place, name in PLACES.items():
        if path.is_relative_to(place):
            return name / path.relative_to(place)
    raise ValueError(f"publish: results lie below {' or '.join(map(str, PLACES))}, got {path}")


def _published_name(message: str, root: Path) -> str:
    """A message that names a file of the root in the words of the report."""
    for place, name in PLACES.items():
        message = message.replace(f"{root / place}/", f"{name}/")
    return message
