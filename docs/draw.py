"""Draws the Mermaid of pages as pictures beside them, for where nothing draws it, such as the site without a network.

    npm install mermaid
    python docs/draw.py node_modules/mermaid/dist/mermaid.min.js docs/lessons/sinh.md

A picture carries its text as its description; a test compares that with the page.
"""

from __future__ import annotations

import re
import shutil
import sys
from html import escape
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Labels as text of the picture, not as HTML in it, which only browsers draw.
DRAW = """async text => {
    mermaid.initialize({theme: "neutral", htmlLabels: false, flowchart: {htmlLabels: false}});
    return (await mermaid.render("graph", text)).svg;
}"""


def draw(text: str, page: Page) -> str:
    """One flowchart as SVG on white, with its text as description."""
    svg = page.evaluate(DRAW, text)
    opening, rest = svg.split(">", 1)
    white = opening.replace('style="', 'style="background: white; ', 1)
    return f"{white}><desc>{escape(text)}</desc>{rest}\n"


def main(library: str, *documents: str) -> None:
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"]).new_page()
        page.add_script_tag(path=library)
        for document in map(Path, documents):
            (found,) = FENCE.findall(document.read_text(encoding="utf-8"))
            document.with_suffix(".svg").write_text(draw(found, page), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
