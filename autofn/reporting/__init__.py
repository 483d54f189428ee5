"""Results as pages: frame -> Section (plain data) -> one self-contained HTML file. Nothing here takes a time."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from ..records import write_atomically
from . import front
from .inputs import Inputs, load
from .model import Page
from .page import PLOTLY, Link, plotly, render
from .split import by_function

__all__ = ["Inputs", "NoResultsError", "Page", "report"]

DEFINITIONS = Path(__file__).parent / "definitions"
FRONT = "index"
NOTHING = "report: there are no results below {root}; run `autofn bench` or `asv run` first"


class NoResultsError(LookupError):
    """There is nothing to report below a root."""


def report(
    root: str | Path = ".",
    out: str | Path = "reports/html",
    definitions: str | Path | None = None,
    *,
    base: str = "",
    head: str = "",
) -> list[Path]:
    """Builds a page for each definition, and the front page `index.html`, from all results below `root`.

    definitions: a folder of Python files, each with a docstring (the page's title and introduction) and a function
    `page(inputs: Inputs) -> Page`; by default `<root>/reports`, or the package's own where that holds none. One called
    index.py replaces the front page. A page that would be too large to open is split by Function; its parts share the
    script that draws, a file beside them. The paths of the pages come back, the front page first; each file is complete
    when it appears under its name.

    base, head: revisions between which changes are told; without them, from the first commit measured to the last.

    Raises NoResultsError where nothing was measured below `root`, LookupError for a definition that lacks its docstring
    or its `page`, and for a revision without results.
    """
    return write(read(root, base=base, head=head), Path(out), definitions_of(Path(root), definitions))


def write(inputs: Inputs, out: Path, definitions: Sequence[Path]) -> list[Path]:
    """The pages of what was read, see `report`."""
    inputs = replace(inputs, out=str(out))
    modules = {FRONT: front} | {path.stem: _load(path) for path in definitions}
    links = [_link(stem, module) for stem, module in modules.items()]
    details = [f"{stem}.html" for stem in ("comparison", *modules) if stem in modules and stem != FRONT]
    inputs_of = {FRONT: replace(inputs, detail=details[0] if details else "")}
    made: dict[str, str] = {}
    beside: dict[str, str] = {}
    for link, (stem, module) in zip(links, modules.items(), strict=True):
        for file, page in by_function(module.page(inputs_of.get(stem, inputs)), link.file).items():
            made[file] = render(page, _own(link, file, page), links)
            if page.shares:
                beside[PLOTLY] = plotly()
    for file, text in (beside | made).items():
        write_atomically(out / file, text)
    return [out / file for file in made]


def _own(link: Link, file: str, page: Page) -> Link:
    """The link of the page itself; of one that was split off with the Function in its title."""
    return link if file == link.file else Link(file, f"{link.title}: {page.sections[0].title}", link.intro)


def read(root: str | Path = ".", *, base: str = "", head: str = "") -> Inputs:
    """All that a report is made from. Raises NoResultsError where nothing was measured below `root`."""
    if head and not base:
        raise ValueError("report: a head is compared with a base, got no base")
    inputs = load(Path(root), base, head)
    if inputs.results.empty:
        raise NoResultsError("\n".join([NOTHING.format(root=Path(root).resolve()), *inputs.skipped]))
    return inputs


def definitions_of(root: Path, folder: str | Path | None) -> Sequence[Path]:
    """The definitions, in alphabetical order. Raises LookupError where a given folder holds none."""
    for candidate in [root / "reports", DEFINITIONS] if folder is None else [Path(folder)]:
        files = [path for path in sorted(candidate.glob("*.py")) if not path.stem.startswith("_")]
        if files:
            return files
    raise LookupError(f"report: a folder of definitions holds Python files, got {folder}, which holds none")


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"autofn_report_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise LookupError(f"{path}: cannot be loaded as a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not (module.__doc__ or "").strip() or not hasattr(module, "page"):
        raise LookupError(f"{path}: a definition has a docstring and a function page(inputs) -> Page; one is missing")
    return module


def _link(stem: str, module: ModuleType) -> Link:
    title, _, intro = (module.__doc__ or "").strip().partition("\n")
    return Link(f"{stem}.html", title.strip().rstrip("."), " ".join(intro.split()))
