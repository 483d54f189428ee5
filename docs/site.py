"""What the site holds beside the pages of this folder: the README, and the reports that were published.

Hooks of MkDocs, see mkdocs.yml. A link to a file of the repository that the site lacks becomes plain text.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from autofn.comparing.markdown import escape
from autofn.reporting import NoResultsError, published

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "reports" / "published"
# Where pages are made of published results.
BUILT = ROOT / "build" / "published"
# Where a file of the repository stands in the site.
OF_REPOSITORY = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "examples/third_party/README.md": "third_party.md",
}
FETCHED_WORKER, WORKER = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)]*)?\)")
# What stands behind a block's language is for the tests, such as ```python wrong; the site knows no such block.
FENCE = re.compile(r"^```(\w+) \w+$", re.MULTILINE)
DRAWN = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
TITLE = (
    "# Published reports\n\nEach folder holds what was published of one machine at one commit, raw results included.\n"
)
HEAD = "\n| Report | Machine | Commit | Command | Published |\n|---|---|---|---|---|\n"


def on_files(files: Files, config: Any) -> Files:
    """Adds the files from outside `docs`."""
    for name, place in OF_REPOSITORY.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in _published():
        place = f"published/{path.relative_to(PUBLISHED).as_posix()}"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    shutil.rmtree(BUILT, ignore_errors=True)
    rows = [_report(folder) for folder in published.found(PUBLISHED)]
    reports = HEAD + "\n".join(rows) + "\n" if rows else ""
    for path in sorted(path for path in BUILT.rglob("*") if path.is_file()):
        place = f"published/{path.relative_to(BUILT).as_posix()}"
        files.append(File.generated(config, place, abs_src_path=str(path)))
    files.append(File.generated(config, "published/index.md", content=TITLE + reports + _listed()))
    config.nav = _navigation(config.nav or [], [file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    """Leads the links of a page to where their files stand in the site."""
    source = _in_repository(page.file.src_uri)

    def led(found: re.Match[str]) -> str:
        image, text, target, place = found.groups()
        repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        wanted = _in_site(repository)
        if files.get_file_from_path(wanted) is None:
            return text
        relative = posixpath.relpath(wanted, posixpath.dirname(page.file.src_uri) or ".")
        return f"{image}[{text}]({relative}{place or ''})"

    return FENCE.sub(r"```\1", LINK.sub(led, _with_pictures(markdown, page)))


def on_post_page(output: str, page: Page, config: Any) -> str:
    """The search of a page that is opened as a file needs a worker; the theme would fetch it."""
    own = posixpath.relpath(WORKER, posixpath.dirname(page.url) or ".")
    return output.replace(FETCHED_WORKER, own)


def _with_pictures(markdown: str, page: Page) -> str:
    """Mermaid needs a library of its own to be drawn: the picture beside the page stands for it, see draw.py."""
    picture = Path(page.file.src_uri).with_suffix(".svg").name
    return DRAWN.sub(f"![The graphs, drawn]({picture})", markdown)


def _navigation(entries: list[Any], pages: list[str]) -> list[Any]:
    """The navigation of mkdocs.yml with the pages of a folder, its index first, where it names the folder."""
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            found.append({title: _navigation(inside if isinstance(inside, list) else [inside], pages)})
        elif entry.endswith("/"):
            below = [page for page in pages if page.startswith(entry)]
            found += sorted(below, key=lambda page: (page.removeprefix(entry) != "index.md", page))
        else:
            found.append(entry)
    return found


def _published() -> list[Path]:
    return sorted(path for path in PUBLISHED.rglob("*") if path.is_file())


def _report(folder: Path) -> str:
    """Makes its pages; its row of the list. One that cannot be read is named, here and there, and the others go on."""
    name = folder.relative_to(PUBLISHED).as_posix()
    try:
        told = published.told_of(folder)
        first, *_ = published.pages(folder, BUILT / name, ROOT / "reports")
    except (published.UntoldError, NoResultsError) as error:
        fault = str(error).splitlines()[0]
        print(f"make site: {name}: skipped: {fault}", file=sys.stderr)
        return f"| {escape(name)} | skipped: {escape(fault)} ||||"
    about = " | ".join(map(escape, (told.machine, told.commit[:8], told.command, told.date[:10])))
    return f"| [{escape(name)}]({name}/{first.name}) | {about} |"


def _listed() -> str:
    """A heading a folder, and its files."""
    lines: list[str] = []
    for folder in dict.fromkeys(path.parent for path in _published()):
        name = folder.relative_to(PUBLISHED).as_posix()
        lines += ["", f"## {name}", ""]
        lines += [f"- [{path.name}]({name}/{path.name})" for path in sorted(folder.iterdir()) if path.is_file()]
    return "\n".join(lines) + "\n"


def _in_site(repository: str) -> str:
    if repository in OF_REPOSITORY:
        return OF_REPOSITORY[repository]
    return repository.removeprefix("docs/").replace("reports/published/", "published/", 1)


def _in_repository(place: str) -> str:
    of_site = {site: name for name, site in OF_REPOSITORY.items()}
    if place.startswith("published/"):
        return f"reports/{place}"
    return of_site.get(place, f"docs/{place}")
