"""`make site`: the documentation and the published reports, where the extra `site` is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample

from autofn.reporting import published

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
        built = (tmp_path / page.relative_to(ROOT / "docs")).with_suffix(".html")
        assert "```" not in built.read_text(), f"a block of {page.name} was not taken for one"
    published = (tmp_path / "published" / "index.html").read_text()
    for path in (ROOT / "reports" / "published").rglob("*.json"):
        name = path.relative_to(ROOT / "reports" / "published").as_posix()
        assert f'href="{name}"' in published
        assert (tmp_path / "published" / name).is_file()
    start = (tmp_path / "index.html").read_text()
    assert 'href="reports.html"' in start
    assert re.findall(r'(?:src|<link[^>]*href)="https?://[^"]*"', start) == []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hooks of the site, over what is published in a scratch repository."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: it is in the extra site")
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    monkeypatch.setattr(hooks, "PUBLISHED", tmp_path / published.PUBLISHED)
    monkeypatch.setattr(hooks, "BUILT", tmp_path / "build" / "published")
    return hooks


def test_a_folder_in_the_navigation_stands_for_its_pages_the_index_first(site: Any) -> None:
    pages = ["index.md", "rules/b.md", "rules/a.md", "rules/index.md", "other/c.md"]
    entries = ["index.md", {"Rules": "rules/"}, {"More": ["other/", "rules/a.md"]}]

    assert site._navigation(entries, pages) == [
        "index.md",
        {"Rules": ["rules/index.md", "rules/a.md", "rules/b.md"]},
        {"More": ["other/c.md", "rules/a.md"]},
    ]


def of_site(hooks: Any) -> tuple[dict[str, Any], str]:
    """The files that the hooks add below published/, and the list of them."""
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

    config = MkDocsConfig()
    config.load_dict({"site_name": "autofn", "docs_dir": str(ROOT / "docs"), "plugins": []})
    assert config.validate() == ([], [])
    config.plugins.events["files"].append(hooks.on_files)
    files = config.plugins.run_event("files", Files([]), config=config)
    found = {file.src_uri: file for file in files if "published" in file.src_uri}
    return found, found["published/index.md"].content_string


def test_a_published_folder_becomes_pages_in_the_input_of_the_site(site: Any, tmp_path: Path) -> None:
    hashes = sample.commit_history(tmp_path, ["first", "second"])
    sample.write_asv(tmp_path, ["exp"], hashes)
    sample.write_run(tmp_path, "check", sample.check_records(["exp"], commit=hashes[-1]))
    (folder,) = published.publish(tmp_path, "make <report> | tee")
    name = folder.relative_to(site.PUBLISHED).as_posix()
    files, listed = of_site(site)
    for page in ("index", "comparison", "commits"):
        assert "second" in Path(files[f"published/{name}/{page}.html"].abs_src_path).read_text()
    assert f"published/{name}/runs/check.jsonl.gz" in files
    (row,) = [line for line in listed.splitlines() if f"]({name}/index.html)" in line]
    assert f"| bench-1 | {hashes[-1][:8]} | make &lt;report&gt; \\| tee |" in row


def test_a_damaged_published_report_is_named_and_the_others_are_there(
    site: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (last,) = sample.commit_history(tmp_path, ["first"])
    for machine in ("bench-1", "bench-2", "bench-3"):
        sample.write_run(tmp_path, machine, [sample.record(commit=last, machine=machine)])
    one, two, three = published.publish(tmp_path, "make report")
    (one / "report.json").write_text("{")
    (two / "runs" / "bench-2.jsonl.gz").write_bytes(b"no gzip")
    files, listed = of_site(site)
    names = [folder.relative_to(site.PUBLISHED).as_posix() for folder in (one, two, three)]
    assert [f"published/{name}/index.html" in files for name in names] == [False, False, True]
    printed = capsys.readouterr().err
    assert f"make site: {names[0]}: skipped: report.json: a published report says its command" in printed
    assert f"make site: {names[1]}: skipped: report: none of its results can be read" in printed
    assert listed.count("| skipped: ") == 2
