"""What the documents say of the Functions is what there is."""

from __future__ import annotations

import re

import pytest
from support import ROOT

from autofn import registry

README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_the_readme_lists_every_function_once_in_order():
    table = README[README.index("| Function | formula |") :]
    rows = re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)
    assert tuple(rows) == registry.names()


def test_the_readme_explains_every_kind_of_variant():
    table = README[README.index("| variant | what it is |") :]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)) == registry.KINDS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_of_the_repository_leads_somewhere(document):
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []
