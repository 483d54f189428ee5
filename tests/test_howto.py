"""What a how-to page shows is what its commands print, but for what was measured."""

from __future__ import annotations

import shutil

import documents
import pytest
from support import ROOT, shell

FOLDER = ROOT / "docs" / "howto"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
# This one runs in a checkout, on a Slurm: fleets/test_fleet_page.py.
ELSEWHERE = "run-on-a-cluster"
# Without a compiler the C++ variant is n/a.
NEEDS_COMPILER = {"choose-a-variant"}


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.parametrize("page", [page for page in PAGES if page != ELSEWHERE])
def test_a_page_shows_what_its_commands_print(page, tmp_path):
    if page in NEEDS_COMPILER and shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path / "page"
    folder.mkdir()
    assert documents.play(FOLDER / f"{page}.md", folder, shell(tmp_path / "programs", ROOT)).wrong() == []


def test_every_page_is_in_the_index():
    index = (FOLDER / "index.md").read_text()
    assert [page for page in PAGES if f"| [{page}]({page}.md) |" not in index] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_what_it_does_not_tell(page):
    assert "\n## What it does not tell\n" in (FOLDER / f"{page}.md").read_text()
