"""`make site`: the documentation and the published reports, where the extra `site` is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed: it is in the extra site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    for page in (ROOT / "docs").rglob("*.md"):
        assert (tmp_path / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()
    published = (tmp_path / "published" / "index.html").read_text()
    for path in (ROOT / "reports" / "published").rglob("*.json"):
        name = path.relative_to(ROOT / "reports" / "published").as_posix()
        assert f'href="{name}"' in published
        assert (tmp_path / "published" / name).is_file()
    start = (tmp_path / "index.html").read_text()
    assert 'href="reports.html"' in start
    assert re.findall(r'(?:src|<link[^>]*href)="https?://[^"]*"', start) == []
