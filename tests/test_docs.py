"""What the documents say of the Functions is what there is."""

from __future__ import annotations

import ast
import pkgutil
import re
import shlex
import textwrap
from xml.etree import ElementTree

import documents
import pytest
import typer
from support import ROOT

from autofn import cli, registry
from autofn.terms import KINDS

README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_readme_lists_every_function_once_in_order():
    table = README[README.index("| Function | formula |") :]
    rows = re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)
    assert tuple(rows) == registry.names()


def test_the_readme_explains_every_kind_of_variant():
    table = README[README.index("| variant | what it is |") :]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)) == KINDS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_of_the_repository_leads_somewhere(document):
    prose = documents.FENCE.sub("", document.read_text())
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


def commands(text):
    """The words of each `autofn` command of a document."""
    begin = r"^\s*(?:\$ |run: |- run: )?(?:AUTOFN_\w+=\S+ )?"
    for line in re.findall(rf"{begin}autofn ([a-z].*)", text.replace("\\\n", ""), re.MULTILINE):
        yield shlex.split(line, comments=True)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_document_is_one_that_the_command_line_takes(document):
    known = typer.main.get_command(cli.app).commands
    for name, *words in commands(document.read_text()):
        assert name in known, f"{document.name}: autofn {name}"
        options = {option for parameter in known[name].params for option in parameter.opts + parameter.secondary_opts}
        asked = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
        assert [option for option in asked if option not in {*options, "--help"}] == [], f"autofn {name} {words}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_picture_of_a_graph_is_that_of_the_page(document):
    texts = [block.text for block in documents.blocks(document.read_text()) if block.kind == "mermaid"]
    for text in texts:
        drawn = ElementTree.parse(document.with_suffix(".svg")).find("{http://www.w3.org/2000/svg}desc")
        assert drawn is not None
        assert drawn.text == text, "draw it anew: docs/draw.py"


def from_autofn(code):
    """What a piece of code takes from the package: `autofn.name` and `from autofn.module import name`, by full name."""
    for node in ast.walk(ast.parse(textwrap.dedent(code))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "autofn":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "autofn":
            yield f"autofn.{node.attr}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_code_of_a_document_is_python_and_takes_from_the_package_what_there_is(document):
    text = document.read_text()
    blocks = [block for block in documents.blocks(text) if block.kind.split()[0] == "python"]
    own = {f"autofn.{name}" for name in re.findall(r"autofn new (\w+)", text)}
    for name in {name for block in blocks for name in from_autofn(block.text)} - own:
        assert pkgutil.resolve_name(name) is not None


def test_no_two_files_of_tests_share_a_name():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names), "pytest imports the first one alone"
